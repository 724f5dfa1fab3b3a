"""js/render.js in a real browser: values are text, and what stays the same stays in the page."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.console.server import ConsoleServer
from raftka.json_values import Json
from tests.console.browser.conftest import page_opener
from tests.kit.browser import Browser, BrowserError, Page

SCRIPT = "<img src=x onerror='window.hit = 1'><script>window.hit = 1</script>"


@pytest.fixture(scope="module")
def page(browser: Browser, site: ConsoleServer) -> Iterator[Page]:
    with ExitStack() as stack:
        yield page_opener(browser, site.url, stack)()


def run(page: Page, body: str) -> Json:
    """Run a function's body with `html`, `svg`, `each`, `render`, and `box`, an empty element."""
    return page.evaluate(
        "(async () => { const { html, svg, each, render } = await import('/js/render.js');"
        "const box = document.createElement('div'); document.body.append(box);"
        f"try {{ {body} }} finally {{ box.remove(); }} }})()"
    )


def test_values_are_text_and_never_markup(page: Page) -> None:
    found = run(
        page,
        f"const value = {json.dumps(SCRIPT)};"
        """
        render(html`<p title=${value}>${value}</p>`, box);
        await new Promise((done) => setTimeout(done, 50));
        const p = box.querySelector("p");
        return [p.textContent, p.title, box.querySelectorAll("img, script").length,
            window.hit ?? null];
        """,
    )
    assert found == [SCRIPT, SCRIPT, 0, None]


def test_a_link_that_would_run_a_script_leads_nowhere(page: Page) -> None:
    found = run(
        page,
        r"""
        const at = (x) => {
            render(html`<a href=${x}>a</a>`, box);
            return box.firstElementChild.getAttribute("href");
        };
        return ["javascript:alert(1)", " JaVaScRiPt:alert(1)", "\u0001javascript:x",
            "data:text/html,x", "#/topics/javascript:x", "/ok"].map(at);
        """,
    )
    assert found == ["#", "#", "#", "#", "#/topics/javascript:x", "/ok"]


def test_elements_stay_when_values_change(page: Page) -> None:
    found = run(
        page,
        """
        const more = (n) => (n > 1 ? html`<i>${n}</i>` : null);
        const show = (n) => render(html`<p class="a ${n} b">n ${n}</p>${more(n)}`, box);
        show(1);
        const p = box.querySelector("p");
        show(2);
        const both = box.textContent;
        const same = p === box.querySelector("p");
        show(1);
        return [same, p.className, both, box.textContent];
        """,
    )
    assert found == [True, "a 1 b", "n 22", "n 1"]


def test_items_of_a_list_keep_their_elements_while_they_move(page: Page) -> None:
    found = run(
        page,
        """
        const row = (x) => html`<li>${x}</li>`;
        const show = (items) => render(html`<ul>${each(items, (x) => x, row)}</ul>`, box);
        const nodes = () =>
            Object.fromEntries([...box.querySelectorAll("li")].map((li) => [li.textContent, li]));
        show(["a", "b", "c", "d"]);
        const before = nodes();
        show(["d", "e", "b", "a"]);
        const after = nodes();
        return [box.textContent, ["a", "b", "d"].map((x) => before[x] === after[x])];
        """,
    )
    assert found == ["deba", [True, True, True]]


def test_a_field_that_moves_in_a_list_keeps_focus_and_text(page: Page) -> None:
    found = run(
        page,
        """
        const row = (x) => html`<input id=${x} />`;
        const show = (items) => render(each(items, (x) => x, row), box);
        show(["a", "b", "c"]);
        box.querySelector("#c").focus();
        box.querySelector("#c").value = "typed";
        show(["c", "a", "b"]);
        return [document.activeElement.id, document.activeElement.value];
        """,
    )
    assert found == ["c", "typed"]


def test_two_items_with_one_key_are_refused(page: Page) -> None:
    with pytest.raises(BrowserError, match="same key"):
        run(page, "render(each([1, 1], (x) => x, (x) => x), box)")


def test_attributes_properties_switches_and_events(page: Page) -> None:
    found = run(
        page,
        """
        const seen = [];
        const show = (on) => render(html`<input .value=${on ? "x" : "y"} ?disabled=${on}
            data-name=${on ? "n" : null} @change=${() => seen.push(on)} />`, box);
        const state = () => [input.value, input.disabled, input.dataset.name ?? null];
        show(true);
        const input = box.querySelector("input");
        const first = state();
        input.dispatchEvent(new Event("change"));
        show(false);
        input.dispatchEvent(new Event("change"));
        return [first, state(), seen];
        """,
    )
    assert found == [["x", True, "n"], ["y", False, None], [True, False]]


def test_styles_are_objects_because_the_policy_refuses_text(page: Page) -> None:
    found = run(
        page,
        """
        const show = (style) => render(html`<i style=${style}></i>`, box);
        show({ width: "30%", "--x": 1 });
        const { style } = box.querySelector("i");
        const first = [style.width, style.getPropertyValue("--x")];
        show({ height: "3px" });
        return [first, [style.width, style.height]];
        """,
    )
    assert found == [["30%", "1"], ["", "3px"]]


@pytest.mark.parametrize(
    "template",
    ["html`<p ${1}></p>`", "html`<p onclick=${1}></p>`", "html`<!-- ${1} -->`"],
)
def test_a_value_where_none_can_be_is_refused(page: Page, template: str) -> None:
    with pytest.raises(BrowserError, match="Error"):
        run(page, f"render({template}, box)")


def test_shapes_are_drawn_as_svg(page: Page) -> None:
    found = run(
        page,
        """
        const shape = (x) => svg`<rect x=${x}></rect>`;
        render(html`<svg>${[1, 2].map(shape)}</svg>`, box);
        return [...box.querySelectorAll("rect")].map((each) =>
            [each instanceof SVGRectElement, each.getAttribute("x")]);
        """,
    )
    assert found == [[True, "1"], [True, "2"]]
