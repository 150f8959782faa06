"""Makes the verdict of the report: sentences about one group of cells (same work, machine and mode)."""

from umbench import iteration_times, load
from umbench.plots.report_parts import slowdown_of

SAME = 1.05  # times whose ratio is below this count as equal


def verdict_sentences(group, cells, baseline_ns):
    """[sentence] about one group of cells, in plain words."""
    found = load.records_by_strategy(cells)
    if not baseline_ns:
        return ["There is no cell with everything on the device, so nothing can be called slow or fast."] + _sentences_on_failures(cells)
    slowdowns_by_ratio = {}
    for label, line in found.items():
        for record in line:
            slowdown = slowdown_of(record, baseline_ns)
            if slowdown and label != "device":
                slowdowns_by_ratio.setdefault(record["ratio"], {})[label] = slowdown
    sentences = _sentences_on_ratios_without_cost(found, baseline_ns)
    tight = [ratio for ratio in sorted(slowdowns_by_ratio) if ratio > 1]
    for ratio in dict.fromkeys(tight[:1] + tight[-1:]):
        sentences.append(_sentence_on_fastest(ratio, slowdowns_by_ratio[ratio]))
    hints = {label for label, line in found.items() if line[0]["family"] == "managed"} - {"managed"}
    sentences += _sentences_on_harmful_hints({ratio: {label: slowdowns_by_ratio[ratio][label] for label in hints & set(slowdowns_by_ratio[ratio])} for ratio in tight},
                               {ratio: slowdowns_by_ratio[ratio].get("managed") for ratio in tight})
    sentences += _sentences_on_slowdowns_with_more_memory(slowdowns_by_ratio) + _sentences_on_infeasible_strategies(found, slowdowns_by_ratio) + _sentences_on_machine_files(cells)
    beyond = sorted({record["ratio"] for line in found.values() for record in line} - set(slowdowns_by_ratio))
    beyond = [ratio for ratio in beyond if ratio > max([1, *slowdowns_by_ratio])]
    if beyond:
        sentences.append(f"Nothing ran at ratio {beyond[0]:g}" + (" and above." if len(beyond) > 1 else "."))
    return sentences + _sentences_on_failures(cells)


def _sentences_on_ratios_without_cost(records_by_label, baseline_ns):
    """[sentence] on the ratios at which managed memory costs nothing; [] if it has no such limit. `records_by_label` is {label: records}."""
    free, costly = None, None
    for record in records_by_label.get("managed", []):
        slowdown = slowdown_of(record, baseline_ns)
        if not slowdown or slowdown > SAME:
            costly = record["ratio"] if slowdown else None
            break
        free = record["ratio"]
    if free:
        return [f"Managed memory costs less than 5 % up to ratio {free:.4g}."]
    return [f"Managed memory costs more than 5 % at ratio {costly:.4g} already."] if costly and costly <= 1 else []


def _sentence_on_fastest(ratio, slowdown_by_label):
    best, plain = min(slowdown_by_label, key=slowdown_by_label.get), slowdown_by_label.get("managed")
    if plain and best != "managed" and plain < SAME * slowdown_by_label[best]:
        return (f"At ratio {ratio:g} nothing is faster than plain managed memory by 5 %, which takes "
                f"{_factor_text(plain)} the time with everything on the device.")
    text = f"Fastest at ratio {ratio:g}: {best}, {_factor_text(slowdown_by_label[best])} the time with everything on the device"
    if plain and best != "managed":
        text += f"; plain managed memory takes {_factor_text(plain)} that time, {_factor_text(plain / slowdown_by_label[best])} as long as {best}"
    return text + "."


def _factor_text(factor):
    """A factor with three digits, as text."""
    return f"{factor:.{iteration_times.decimals_to_show(factor, 0)}f} times"


def _sentences_on_harmful_hints(slowdowns_by_ratio, managed_slowdown_by_ratio):
    """Sentences on hints that make managed memory slower. `slowdowns_by_ratio` is {ratio: {label: slowdown}} of hints, `managed_slowdown_by_ratio` is {ratio: slowdown} without
    hints."""
    found = {}
    for ratio, slowdowns in slowdowns_by_ratio.items():
        for label in slowdowns:
            if slowdowns[label] > SAME * (managed_slowdown_by_ratio[ratio] or float("inf")):
                found.setdefault(label, {})[ratio] = slowdowns[label] / managed_slowdown_by_ratio[ratio]
    return [f"{label} does harm at {'ratio' if len(times) == 1 else 'ratios'} {_list_text([f'{ratio:g}' for ratio in times])}: "
            f"{'' if len(times) == 1 else 'up to '}{max(times.values()):.2f} times the time of plain managed memory."
            for label, times in sorted(found.items())]


def _sentences_on_slowdowns_with_more_memory(slowdowns_by_ratio):
    """Sentences on strategies that take longer at a ratio than at the next higher one, of {ratio: {label: slowdown}}."""
    found = {}
    for label in dict.fromkeys(label for slowdowns in slowdowns_by_ratio.values() for label in slowdowns):
        ratios = [ratio for ratio in sorted(slowdowns_by_ratio) if label in slowdowns_by_ratio[ratio]]
        worse = [(slowdowns_by_ratio[more][label] / slowdowns_by_ratio[less][label], more, less) for more, less in zip(ratios, ratios[1:])
                 if slowdowns_by_ratio[more][label] > SAME * slowdowns_by_ratio[less][label]]
        if worse:
            found[label] = max(worse)
    return [f"{label} is slower with more memory: {_factor_text(slowdowns_by_ratio[more][label])} the time with everything on the device at ratio {more:g}, "
            f"{_factor_text(slowdowns_by_ratio[less][label])} at {less:g}." for label, (_, more, less) in sorted(found.items(), key=lambda each: -each[1][0])]


def _sentences_on_infeasible_strategies(records_by_label, slowdowns_by_ratio):
    """Sentences on strategies that have no plan at a ratio at which another one runs, with the lowest such ratio above 1."""
    found = {}
    for label, line in records_by_label.items():
        ratio = next((record["ratio"] for record in line if record["outcome"] == "infeasible" and slowdowns_by_ratio.get(record["ratio"])
                      and record["ratio"] > 1), None)
        if ratio and label != "device":
            found.setdefault(ratio, []).append(label)
    return [f"At ratio {ratio:g} there is no plan of {_list_text(found[ratio])}, while {_list_text(sorted(slowdowns_by_ratio[ratio], key=slowdowns_by_ratio[ratio].get)[:2])} "
            f"{'run' if len(slowdowns_by_ratio[ratio]) > 1 else 'runs'}." for ratio in sorted(found)]


def _sentences_on_machine_files(cells):
    digests = {record["figures_digest"] for record in cells if record["simulated"] and record.get("figures_digest")}
    if len(digests) < 2:
        return []
    return [f"These cells were simulated with {len(digests)} different machine files of this name (figures_digest): a difference "
            "may be one of machine files."]


def _sentences_on_failures(cells):
    failed = [record for record in cells if record["outcome"] not in ("ok", "infeasible")]
    if not failed:
        return []
    kinds = _list_text(sorted({record["outcome"] for record in failed}))
    return [f"{len(failed)} of {len(cells)} cells failed ({kinds})."]


def _list_text(names):
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
