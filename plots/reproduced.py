"""The figure of `umbench reproduce`: published values beside ours."""

from umbench import reproduce
from umbench.plots import common, looks


def draw(paper, results, where, folder):
    """`where`: reproduce.where_text of the results."""
    wanted = paper["figure"]
    common.use_style()
    figure, (panel,) = common.panels(1, height=3.6)
    if "series" in wanted:
        _draw_lines(panel, wanted, results)
    else:
        _draw_bars(panel, wanted, results)
    low, high = panel.get_ylim()
    panel.set_ylim(low, high + 0.06 * (high - low))  # room for the word simulated or measured
    panel.set_ylabel(wanted["y"])
    common.mark_origin(panel, where.startswith("simulated"))
    common.set_title(panel, [paper["title"], f"ours: {where}"])
    panel.legend()
    common.layout(figure)
    common.save(figure, folder, paper["name"])


def _values(wanted, results, points):
    """[(x, value), ...] of the points' cells that have a result."""
    found = []
    for x, name in points:
        try:
            found.append((x, reproduce.VALUES[wanted["value"]](reproduce.cell_of(results, name))))
        except reproduce.Missing:
            pass
    return found


def _draw_lines(panel, wanted, results):
    names = {series["label"]: strategy_of(results, series) for series in wanted["series"]}
    if len(set(names.values())) < len(names):
        names = {label: label for label in names}
    found = looks.looks({names[series["label"]]: family(results, series) for series in wanted["series"]})
    for series in wanted["series"]:
        look, points = found[names[series["label"]]], _values(wanted, results, series["points"])
        if points:
            panel.plot(*zip(*points), color=look.colour, marker=look.marker, linestyle=look.dash, label=series["label"])
    for series in wanted["published"]:
        panel.plot(*zip(*series["points"]), color="#777777", linestyle=":", marker="x", label=series["label"] or None)
    panel.set_xlabel(wanted["x"])


def _draw_bars(panel, wanted, results):
    at, ticks = 0.0, []
    for group, bars in wanted["bars"]:
        for label, name in bars:
            ours = _values(wanted, results, [(at, name)])
            panel.bar(at - 0.2, wanted["published"].get(group, {}).get(label) or 0, 0.38, color="#BBBBBB")
            panel.bar(at + 0.2, ours[0][1] if ours else 0, 0.38, color="#0072B2", hatch=None if ours else "x")
            ticks.append((at, f"{group} {label}" if len(wanted["bars"]) > 1 else label))
            at += 1
        at += 0.6
    panel.bar(0, 0, color="#BBBBBB", label="published")
    panel.bar(0, 0, color="#0072B2", label="here")
    panel.set_xticks([x for x, _ in ticks], [text for _, text in ticks], rotation=60, ha="right", fontsize=7)
    if wanted["value"] == "arena_over_peak":
        panel.set_ylim(0.98, None)


def strategy_of(results, series):
    return next((results[name]["strategy"] for _, name in series["points"] if isinstance(results[name], dict)), series["label"])


def family(results, series):
    for _, name in series["points"]:
        if isinstance(results[name], dict):
            return results[name]["family"]
    return "explicit"
