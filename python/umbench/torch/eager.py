def of_model(*a, **k): raise NotImplementedError
