"""Finds the order in which Inductor runs the kernels of a graph. Inductor compares the given order with one that chooses, at each step, the
kernel that needs the least memory. It takes the order with the lower peak (torch/_inductor/memory.py: topological_sort_lpmf). Its two other
orders are left out."""

from .values import stored_bytes, tensors_of


def in_running_order(kernels, kept_bases):
    """The kernels in running order. `kept_bases` are bases whose memory is not freed within the graph."""
    memory = _Memory(kernels, kept_bases)
    return [kernels[number] for number in min(list(range(len(kernels))), memory.order_by_memory(), key=memory.peak_of_order)]


class _Memory:
    """Sizes of the kernels' results and the numbers of their readers. Kernels are numbers. Like Inductor, it counts values inside a kernel
    as if they took memory."""

    def __init__(self, kernels, kept_bases):
        self.kernels, self.kept_bases = kernels, kept_bases
        self.readers, self.writer = {}, {}
        for number, kernel in enumerate(kernels):
            self.writer |= {base: number for base in kernel.writes}
            for base in kernel.reads:
                self.readers.setdefault(base, set()).add(number)
        bases = {*self.readers, *self.writer}
        self.size = {base: sum(map(stored_bytes, tensors_of(base))) for base in bases}
        self.inside = [sum(stored_bytes(value) for base in kernel.inside for value in tensors_of(base)) for kernel in kernels]
        self.written = [inside + sum(self.size[base] for base in kernel.writes) for kernel, inside in zip(kernels, self.inside)]
        self.given = sum(size for base, size in self.size.items() if base not in self.writer and base not in kept_bases)
        self.predecessors = [{self.writer[base] for base in kernel.reads if base in self.writer} - {number} for number, kernel in enumerate(kernels)]

    def bytes_freed_by(self, kernel_number, remaining_readers):
        """Bytes that are freed after a kernel. `remaining_readers`: {base: remaining readers}."""
        kernel = self.kernels[kernel_number]
        read = [base for base in kernel.reads if base not in self.kept_bases and remaining_readers.get(base) == {kernel_number}]
        unread = [base for base in kernel.writes if base not in self.kept_bases and not remaining_readers.get(base)]
        return self.inside[kernel_number] + sum(self.size[base] for base in read + unread)

    def peak_of_order(self, kernel_numbers):
        """The peak in bytes if the kernels run in this order."""
        held = peak = self.given
        left = {base: set(numbers) for base, numbers in self.readers.items()}
        for number in kernel_numbers:
            held += self.written[number]
            peak = max(peak, held)
            held -= self.bytes_freed_by(number, left)
            self.remove_reader(number, left)
        return peak

    def remove_reader(self, kernel_number, remaining_readers):
        """Removes a kernel from the remaining readers of the values that it reads."""
        for base in self.kernels[kernel_number].reads:
            remaining_readers[base].discard(kernel_number)

    def order_by_memory(self):
        """An order that always picks, of the kernels that may run, the one that frees most and does not raise the peak, else the
        smallest."""
        left = {base: set(numbers) for base, numbers in self.readers.items()}
        held = self.given
        most = max(held, sum(size for base, size in self.size.items() if base in self.kept_bases and base in self.writer))
        waits, order = [set(b) for b in self.predecessors], []
        ready = {number for number, b in enumerate(waits) if not b}
        while ready:
            def cost(kernel_number):
                size = self.written[kernel_number]
                return size if held + size > most else 0, size - self.bytes_freed_by(kernel_number, left), kernel_number

            chosen = min(ready, key=cost)
            ready.remove(chosen)
            order.append(chosen)
            held += self.written[chosen]
            most = max(most, held)
            held -= self.bytes_freed_by(chosen, left)
            self.remove_reader(chosen, left)
            for number, b in enumerate(waits):
                if chosen in b:
                    b.remove(chosen)
                    if not b:
                        ready.add(number)
        return order
