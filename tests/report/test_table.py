import io

from rich.console import Console

from askless.report.markup import tag
from askless.report.table import Cell, Table, latex, markdown


def test_special_characters_are_escaped_everywhere():
    t = Table("a|b", ["method", "x_1"], [["R&D <b>_%$#{x}^~\\", Cell("-1.0 ± 2", True)]], "50 %")
    assert "| R&amp;D &lt;b&gt;\\_%$#{x}^\\~\\\\ | **-1.0 ± 2** |" in markdown([t])
    assert "### a\\|b" in markdown([t])
    assert (
        r"R\&D $<$b$>$\_\%\$\#\{x\}\textasciicircum{}\textasciitilde{}\textbackslash{} & \textbf{$-$1.0 $\pm$ 2} \\"
        in latex([t])
    )
    assert "R&amp;D &lt;b&gt;_%$#{x}^~\\" in t.html()
    assert "<b>-1.0 ± 2</b>" in t.html()


def test_columns_of_words_stand_left_in_every_form():
    t = Table("t", ["name", "n", "why"], [["a", "1", "x"]], left=(0, 2))
    assert "|---|---:|---|" in markdown([t])
    assert r"\begin{tabular}{lrl}" in latex([t])
    assert '<td>1</td><td class="left">x</td>' in t.html()


def test_a_row_of_one_cell_is_a_heading_of_the_rows_below_it():
    t = Table("t", ["quantity", "value"], [["first part"], ["a", "1"], ["second part"], ["b", "2"]])
    assert '<tr class="part"><th colspan="2" scope="rowgroup">first part</th></tr>' in t.html()
    console = Console(width=60, file=io.StringIO())
    console.print(t.terminal())
    assert [line.split() for line in console.file.getvalue().splitlines() if line.strip(" ─")] == [
        ["t"], ["quantity", "value"], ["first", "part"], ["a", "1"], ["second", "part"], ["b", "2"]
    ]  # fmt: skip


def test_a_turned_table_has_its_rows_as_columns():
    t = Table("t", ["method", "10", "20"], [["a", "1", Cell("2", True)], ["b", "3", "4"]], "note")
    assert t.turned("labels") == Table(
        "t", ["labels", "a", "b"], [["10", "1", "3"], ["20", Cell("2", True), "4"]], "note"
    )


def test_markup_in_a_cell_stays_markup():
    assert "<code>a&amp;b</code>" in Table("", ["f"], [[tag("code", "a&b")]]).html()
