"""Draws the figure of `umbench reproduce`: published values beside ours."""

from umbench import reproduce
from umbench.plots import common, looks


def draw_paper(paper, results, origin_text, folder):
    """Draws the figure. reproduce.text_on_origin() returned `origin_text`."""
    figure_spec = paper["figure"]
    common.use_style()
    figure, (panel,) = common.make_panels(1, height=3.6)
    if "series" in figure_spec:
        _draw_lines(panel, figure_spec, results)
    else:
        _draw_bars(panel, figure_spec, results)
    low, high = panel.get_ylim()
    panel.set_ylim(low, high + 0.06 * (high - low))  # leaves room for the word simulated or measured
    panel.set_ylabel(figure_spec["y"])
    common.mark_simulated_or_measured(panel, origin_text.startswith("simulated"))
    common.set_title(panel, [paper["title"], f"ours: {origin_text}"])
    panel.legend()
    common.layout(figure)
    common.save(figure, folder, paper["name"])


def _values_of_points(figure_spec, results, x_and_cell_names):
    """[(x, value), ...] of those points whose cells have a result."""
    found = []
    for x, cell_name in x_and_cell_names:
        try:
            found.append((x, reproduce.VALUE_FUNCTIONS[figure_spec["value"]](reproduce.record_of(results, cell_name))))
        except reproduce.MissingResult:
            pass
    return found


def _draw_lines(axis, figure_spec, results):
    names = {series["label"]: first_strategy(results, series) for series in figure_spec["series"]}
    if len(set(names.values())) < len(names):
        names = {label: label for label in names}
    found = looks.looks_by_label({names[series["label"]]: first_family(results, series) for series in figure_spec["series"]})
    for series in figure_spec["series"]:
        look, points = found[names[series["label"]]], _values_of_points(figure_spec, results, series["points"])
        if points:
            axis.plot(*zip(*points), color=look.colour, marker=look.marker, linestyle=look.dash, label=series["label"])
    for series in figure_spec["published"]:
        axis.plot(*zip(*series["points"]), color="#777777", linestyle=":", marker="x", label=series["label"] or None)
    axis.set_xlabel(figure_spec["x"])


def _draw_bars(axis, figure_spec, results):
    x, ticks = 0.0, []
    for group, bars in figure_spec["bars"]:
        for label, cell_name in bars:
            ours = _values_of_points(figure_spec, results, [(x, cell_name)])
            axis.bar(x - 0.2, figure_spec["published"].get(group, {}).get(label) or 0, 0.38, color="#BBBBBB")
            axis.bar(x + 0.2, ours[0][1] if ours else 0, 0.38, color="#0072B2", hatch=None if ours else "x")
            ticks.append((x, f"{group} {label}" if len(figure_spec["bars"]) > 1 else label))
            x += 1
        x += 0.6
    axis.bar(0, 0, color="#BBBBBB", label="published")
    axis.bar(0, 0, color="#0072B2", label="here")
    axis.set_xticks([x for x, _ in ticks], [text for _, text in ticks], rotation=60, ha="right", fontsize=7)
    if figure_spec["value"] == "arena_over_peak":
        axis.set_ylim(0.98, None)


def first_strategy(results, series):
    """The strategy of the first cell of a series that has a record."""
    return next((results[cell_name]["strategy"] for _, cell_name in series["points"] if isinstance(results[cell_name], dict)), series["label"])


def first_family(results, series):
    """The family of the first cell of a series that has a record."""
    for _, cell_name in series["points"]:
        if isinstance(results[cell_name], dict):
            return results[cell_name]["family"]
    return "explicit"
