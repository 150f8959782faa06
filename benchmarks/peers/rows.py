"""Rows of the comparison: a network, a batch size and a precision, and options of umbench.

As text: NETWORK/BATCH/PRECISION, and after a colon the options that differ from the table below:
    vgg16/64/tf32
    vgg16/64/fp32:fusion=lean,workspace=256MiB,order=nhwc
"""

import dataclasses
import re

import architectures

PRECISIONS = ("fp32", "tf32", "bf16")
FUSIONS = ("none", "fused", "lean")
ORDERS = ("nchw", "nhwc")


class BadRow(Exception):
    """A row that cannot be run. The message names the row and the error."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One row: a network, a batch size, a precision, and options of umbench."""

    network: str
    batch: int
    precision: str
    fusion: str = "lean"
    workspace: str = "512MiB"
    memory_order: str = ""  # "nchw" or "nhwc"; empty: umbench's standard for the precision
    slices: int = 1  # parts of the batch (strategy micro_batches)

    @property
    def key(self):
        return f"{self.network}/{self.batch}/{self.precision}"

    @property
    def options(self):
        """The options of umbench, as a row of results stores them."""
        return {"fusion": self.fusion, "workspace": self.workspace, "memory_order": self.memory_order or None,
                "slices": self.slices}


# The rows of the published table. `workspace` is the cap for one operator: AlexNet's activations are small, so a
# workspace is a large share of its peak. `slices` costs a little time and saves memory. ResNet-50 is in fp32, too, for
# its gradients: in tf32 and bf16 roundings grow so much through its layers that two correct results differ widely.
TABLE = [
    Row("vgg16", 64, "fp32"), Row("vgg16", 256, "fp32"),
    Row("vgg16", 64, "tf32", workspace="128MiB"),
    Row("vgg16", 256, "tf32", workspace="192MiB"),
    Row("vgg16", 256, "bf16"),
    Row("alexnet", 512, "fp32", workspace="256MiB"),
    Row("alexnet", 512, "tf32", workspace="64MiB", slices=2),
    Row("alexnet", 512, "bf16", workspace="128MiB"),
    Row("resnet50", 128, "tf32", workspace="2GiB"), Row("resnet50", 128, "bf16", workspace="2GiB"), Row("resnet50", 32, "fp32"),
]


def parse_row(row_text):
    """The Row of a text. Options that it lacks are those of the table's row of that network, batch and precision, or the defaults."""
    key_text, _, options_text = row_text.partition(":")
    key_parts = key_text.split("/")
    if len(key_parts) != 3:
        raise BadRow(f"row '{row_text}' is not NETWORK/BATCH/PRECISION[:option=value,...], such as vgg16/64/tf32:fusion=lean")
    network, batch, precision = key_parts
    _check_choice(row_text, "network", network, architectures.NETWORK_NAMES)
    _check_choice(row_text, "precision", precision, PRECISIONS)
    if not re.fullmatch(r"[1-9][0-9]{0,6}", batch):
        raise BadRow(f"row '{row_text}': batch '{batch}' is not a number from 1 to 9999999")
    row = Row(network, int(batch), precision)
    row = next((known for known in TABLE if known.key == row.key), row)
    return dataclasses.replace(row, **_parse_options(row_text, options_text)) if options_text else row


def _parse_options(row_text, options_text):
    value_of_option = {}
    for option in options_text.split(","):
        option_name, separator, value = option.partition("=")
        if not separator or not value:
            raise BadRow(f"row '{row_text}': '{option}' is not option=value")
        _check_choice(row_text, "option", option_name, ("fusion", "workspace", "order", "slices"))
        if option_name in value_of_option:
            raise BadRow(f"row '{row_text}': {option_name} is given twice")
        value_of_option[option_name] = value
    slices = value_of_option.get("slices", "1")
    if not re.fullmatch(r"[1-9][0-9]?", slices) or int(slices) > 64:
        raise BadRow(f"row '{row_text}': slices '{slices}' is not a number from 1 to 64")
    if "slices" in value_of_option:
        value_of_option["slices"] = int(slices)
    _check_choice(row_text, "fusion", value_of_option.get("fusion", FUSIONS[0]), FUSIONS)
    _check_choice(row_text, "order", value_of_option.get("order", ORDERS[0]), ORDERS)
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)? ?([kMGT]i?B)?", value_of_option.get("workspace", "0")):
        raise BadRow(f"row '{row_text}': workspace '{value_of_option['workspace']}' is not a number of bytes such as 512MiB")
    if "order" in value_of_option:
        value_of_option["memory_order"] = value_of_option.pop("order")
    return value_of_option


def _check_choice(row_text, option_name, value, choices):
    if value not in choices:
        raise BadRow(f"row '{row_text}': unknown {option_name} '{value}'; there are {', '.join(choices)}")
