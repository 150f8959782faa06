import pytest
import rows


def test_the_table_has_each_row_once():
    keys = [row.key for row in rows.TABLE]
    assert len(set(keys)) == len(keys)
    for row in rows.TABLE:
        assert rows.parse_row(row.key) == row


def test_a_row_says_what_differs():
    row = rows.parse_row("vgg16/64/tf32:fusion=fused,workspace=1.5GiB,order=nchw")
    assert (row.fusion, row.workspace, row.memory_order, row.key) == ("fused", "1.5GiB", "nchw", "vgg16/64/tf32")


def test_rows_beyond_the_table_get_defaults():
    assert rows.parse_row("resnet18/32/bf16") == rows.Row("resnet18", 32, "bf16")


@pytest.mark.parametrize("text, complaint", [
    ("vgg16/64", "not NETWORK/BATCH/PRECISION"), ("vgg61/64/fp32", "unknown network 'vgg61'"),
    ("vgg16/0/fp32", "batch '0'"), ("vgg16/-4/fp32", "batch '-4'"), ("vgg16/1e3/fp32", "batch '1e3'"),
    ("vgg16/64/fp16", "unknown precision 'fp16'"), ("vgg16/64/fp32:", None), ("vgg16/64/fp32:lean", "not option=value"),
    ("vgg16/64/fp32:fusion=all", "unknown fusion 'all'"), ("vgg16/64/fp32:order=chwn", "unknown order 'chwn'"),
    ("vgg16/64/fp32:speed=1", "unknown option 'speed'"), ("vgg16/64/fp32:workspace=lots", "workspace 'lots'"),
    ("vgg16/64/fp32:fusion=lean,fusion=none", "fusion is given twice")])
def test_what_is_no_row_is_named(text, complaint):
    if complaint is None:
        assert rows.parse_row(text).key == "vgg16/64/fp32"
        return
    with pytest.raises(rows.BadRow) as error:
        rows.parse_row(text)
    assert complaint in str(error.value) and text in str(error.value)
