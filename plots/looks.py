"""The colour, marker and dash of each strategy in all figures. Marker and dash alone tell strategies apart, in black and white and for
colour-blind readers."""

import zlib
from collections import namedtuple

Look = namedtuple("Look", "colour marker dash size")

SOLID, LONG_DASHES, SHORT_DASHES, DASH_DOT = "-", (0, (6, 1.5)), (0, (3, 1)), (0, (5, 1.5, 1.2, 1.5))
DOTS, DASH_DOT_DOT, WIDE_DASHES = (0, (1.2, 1.2)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2, 2, 2))
DASHES = (SOLID, LONG_DASHES, SHORT_DASHES, DASH_DOT, DOTS, DASH_DOT_DOT, WIDE_DASHES)
STAR, TRIPOD, CROSS = (4, 1, 0), (3, 1, 0), (5, 1, 0)

LOOKS = {
    "device": ("#000000", "o", SOLID),
    "best": ("#0072B2", "D", SOLID),
    "best_managed": ("#00785A", ">", SHORT_DASHES),
    "twin": ("#B2182B", "X", DASH_DOT),
    "managed": ("#D55E00", "^", SOLID),
    "managed_prefetch": ("#A67700", "v", LONG_DASHES),
    # planners that copy explicitly, most of them from papers
    "swap_all": ("#5E3C99", "s", LONG_DASHES),
    "micro_batches": ("#777777", "P", LONG_DASHES),
    "vdnn_all": ("#1B7837", "p", DASH_DOT),
    "vdnn_conv": ("#5E3C99", "p", SHORT_DASHES),
    "vdnn_dyn": ("#4575B4", "h", LONG_DASHES),
    "ooc_cudnn": ("#1B7837", "d", WIDE_DASHES),
    "pooch": ("#4575B4", "8", DASH_DOT_DOT),
    "superneurons": ("#0B7A75", "P", DOTS),
    "capuchin": ("#7B3294", "h", DOTS),
    "checkmate": ("#808000", "s", DASH_DOT),
    "autoswap": ("#3C7FB1", "p", DOTS),
    "tvdnn": ("#2166AC", "s", SOLID),
    "tvdnn_ilp": ("#0B7A75", "d", SHORT_DASHES),
    # hints for managed memory
    "managed_advise": ("#CC6699", "<", SOLID),
    "prefetch_inputs": ("#8C564B", "v", DOTS),
    "prefetch_outputs": ("#8C564B", "v", DASH_DOT_DOT),
    "zero_copy": ("#B2182B", STAR, SHORT_DASHES),
    "evict_behind": ("#9A6324", "<", WIDE_DASHES),
    "discard": ("#CC6699", TRIPOD, LONG_DASHES),
    "discard_alone": ("#9A6324", TRIPOD, DOTS),
    "discard_prefetch": ("#C51B7D", TRIPOD, DASH_DOT),
    "oc_dnn": ("#6B6B00", "*", WIDE_DASHES),
    "deepum": ("#8C564B", "H", LONG_DASHES),
    "planned": ("#1B9E57", "<", DOTS),
}

# {family: colours} of strategies without a row: plan files, rule files, and strategies of newer builds.
OTHER_COLOURS = {"device": ("#777777", "#9A6324"), "explicit": ("#0072B2", "#5E3C99", "#1B7837", "#4575B4"),
                 "managed": ("#D55E00", "#009E73", "#CC6699", "#B2182B", "#8C564B")}
OTHER_MARKERS = (CROSS, (6, 1, 0), (4, 0, 0), (5, 0, 0), (7, 1, 0))


def looks_by_label(family_by_label):
    """{label: Look} for `family_by_label`, {label: family}. A strategy looks the same in every figure; labels of one strategy with several knobs
    differ in their dashes."""
    found, variants = {}, {}
    for label, family in sorted(family_by_label.items(), key=lambda each: "(" in each[0]):  # labels without knobs come first
        name = label.split(" (")[0]
        colour, marker, dash = LOOKS.get(name) or _default_look(name, family)
        turn = variants.get(name, 0)
        variants[name] = turn + 1
        found[label] = Look(colour, marker, DASHES[(DASHES.index(dash) + turn) % len(DASHES)], 8 if name == "device" else 5.5)
    return {label: found[label] for label in family_by_label}


def _default_look(strategy_name, family):
    """A Look chosen by the checksum of the name, so that it is the same in every figure."""
    number, colours = zlib.crc32(strategy_name.encode()), OTHER_COLOURS.get(family, OTHER_COLOURS["explicit"])
    return (colours[number % len(colours)], OTHER_MARKERS[number // 7 % len(OTHER_MARKERS)],
            DASHES[number // 41 % len(DASHES)])
