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
        for kernel_number, kernel in enumerate(kernels):
            self.writer |= {base_node: kernel_number for base_node in kernel.writes}
            for base_node in kernel.reads:
                self.readers.setdefault(base_node, set()).add(kernel_number)
        bases = {*self.readers, *self.writer}
        self.size = {base_node: sum(map(stored_bytes, tensors_of(base_node))) for base_node in bases}
        self.inside_bytes = [sum(stored_bytes(value) for base_node in kernel.inside for value in tensors_of(base_node)) for kernel in kernels]
        self.written_bytes = [inside_bytes + sum(self.size[base_node] for base_node in kernel.writes)
                              for kernel, inside_bytes in zip(kernels, self.inside_bytes)]
        self.given_bytes = sum(byte_count for base_node, byte_count in self.size.items()
                               if base_node not in self.writer and base_node not in kept_bases)
        self.predecessors = [{self.writer[base_node] for base_node in kernel.reads if base_node in self.writer} - {kernel_number}
                             for kernel_number, kernel in enumerate(kernels)]

    def bytes_freed_by(self, kernel_number, remaining_readers):
        """Bytes that are freed after a kernel. `remaining_readers`: {base: remaining readers}."""
        kernel = self.kernels[kernel_number]
        bases_read_last = [base_node for base_node in kernel.reads
                           if base_node not in self.kept_bases and remaining_readers.get(base_node) == {kernel_number}]
        unread_bases = [base_node for base_node in kernel.writes if base_node not in self.kept_bases and not remaining_readers.get(base_node)]
        return self.inside_bytes[kernel_number] + sum(self.size[base_node] for base_node in bases_read_last + unread_bases)

    def peak_of_order(self, kernel_numbers):
        """The peak in bytes if the kernels run in this order."""
        held_bytes = peak_bytes = self.given_bytes
        remaining_readers = {base_node: set(kernel_numbers_of_readers) for base_node, kernel_numbers_of_readers in self.readers.items()}
        for kernel_number in kernel_numbers:
            held_bytes += self.written_bytes[kernel_number]
            peak_bytes = max(peak_bytes, held_bytes)
            held_bytes -= self.bytes_freed_by(kernel_number, remaining_readers)
            self.remove_reader(kernel_number, remaining_readers)
        return peak_bytes

    def remove_reader(self, kernel_number, remaining_readers):
        """Removes a kernel from the remaining readers of the values that it reads."""
        for base_node in self.kernels[kernel_number].reads:
            remaining_readers[base_node].discard(kernel_number)

    def order_by_memory(self):
        """An order that always picks, of the kernels that may run, the one that frees most and does not raise the peak, else the
        smallest."""
        remaining_readers = {base_node: set(reader_numbers) for base_node, reader_numbers in self.readers.items()}
        held_bytes = self.given_bytes
        peak_bytes = max(held_bytes,
                         sum(byte_count for base_node, byte_count in self.size.items() if base_node in self.kept_bases and base_node in self.writer))
        remaining_predecessors, ordered_numbers = [set(predecessors) for predecessors in self.predecessors], []
        ready_numbers = {waiting_number for waiting_number, predecessors in enumerate(remaining_predecessors) if not predecessors}
        while ready_numbers:
            def rank(kernel_number):
                byte_count = self.written_bytes[kernel_number]
                return (byte_count if held_bytes + byte_count > peak_bytes else 0,
                        byte_count - self.bytes_freed_by(kernel_number, remaining_readers), kernel_number)

            chosen_number = min(ready_numbers, key=rank)
            ready_numbers.remove(chosen_number)
            ordered_numbers.append(chosen_number)
            held_bytes += self.written_bytes[chosen_number]
            peak_bytes = max(peak_bytes, held_bytes)
            held_bytes -= self.bytes_freed_by(chosen_number, remaining_readers)
            self.remove_reader(chosen_number, remaining_readers)
            for waiting_number, predecessors in enumerate(remaining_predecessors):
                if chosen_number in predecessors:
                    predecessors.remove(chosen_number)
                    if not predecessors:
                        ready_numbers.add(waiting_number)
        return ordered_numbers
