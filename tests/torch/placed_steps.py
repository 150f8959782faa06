"""Requests of training steps that are made up."""

MIB = 2**20


def make_requests(*changes_mib):
    """[(whether memory is allocated, key of the tensor, bytes, point)], one for each change: 8 allocates 8 MiB, -8 frees the oldest tensor of
    8 MiB. Each has its own point."""
    found, held = [], []
    for number, change in enumerate(changes_mib):
        if change > 0:
            held.append((number, change * MIB))
            found.append((True, number, change * MIB, number))
        else:
            key, size = next(each for each in held if each[1] == -change * MIB)
            held.remove((key, size))
            found.append((False, key, size, number))
    return found + [(False, *each, len(changes_mib)) for each in held]


def random_requests(random_source, operator_count):
    """A forward pass that keeps some tensors, and a backward pass that gives them back in turn; an operator now and then takes two."""
    found, kept, key, point = [], [], 0, 0

    def add_allocation(byte_count):
        nonlocal key
        key += 1
        found.append((True, key, byte_count, point))
        return key, byte_count

    for back in (False, True):
        for _ in range(operator_count):
            point += 1
            made = [add_allocation(random_source.choice((3, 6, 12, 24, 48)) * MIB) for _ in range(1 + (random_source.random() < 0.2))]
            if back and kept:
                found.append((False, *kept.pop(), point))
            elif not back and random_source.random() < 0.7:
                kept.append(made.pop())
            found.extend((False, *each, point) for each in made)
    return found + [(False, *each, point) for each in kept]
