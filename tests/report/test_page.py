import pytest

from askless.report.markup import markup
from askless.report.page import Section, again, box, bullets, folded, html_page, paragraphs, picture, terms

EVIL = "<script>alert(1)</script> & \"quotes'"


def test_a_page_leaves_out_empty_sections_and_links_to_the_others():
    text = html_page(
        "t", "about", [Section("One & two", markup("x")), Section("None", markup()), Section("C", markup("y"))]
    )
    assert text.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    assert '<nav><a href="#one-two">One &amp; two</a><a href="#c">C</a></nav>' in text
    assert '<section id="one-two"><h2>One &amp; two</h2>x</section>' in text
    assert "None" not in text


@pytest.mark.parametrize(
    "made",
    [
        html_page(EVIL, EVIL, [Section(EVIL, markup("x"))], lead=EVIL, tab=EVIL),
        paragraphs(EVIL),
        bullets([EVIL]),
        terms({EVIL: EVIL}),
        box(EVIL),
        folded(EVIL, EVIL),
        again(EVIL, {EVIL: EVIL}),
        picture(b"x", "png", EVIL),
    ],
)
def test_text_from_outside_is_escaped(made):
    assert "<script" not in made
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&#x27;" in made


def test_what_is_empty_leaves_nothing():
    assert paragraphs("\n\n") == bullets([]) == terms({}) == again("", {"Seeds": ""}) == ""
