"""The looks of figures: on a page, in a column or across the text of a paper, on a slide, and on a
projector.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, distinguishable with any colour vision, in order of contrast.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f6000", "#5b4fa0")
#: The opacity in each round through the palette.
ROUNDS = (0.95, 0.55, 0.3)
INK, FAINT, GRID, BAND = "#202428", "#5f666d", "#dfe3e6", "#f6e7d8"
#: The width and the font size for which the heights of figures are written.
PAGE_WIDTH_IN, PAGE_FONT_PT = 9.0, 10.0
SLIDE_WIDTH_IN, SLIDE_HEIGHT_IN, SLIDE_FONT_PT = 10.0, 5.6, 16.0
#: How the height of a figure follows its width: less than in proportion, because text does not
#: shrink with it.
HEIGHT_EXPONENT = 0.55
NARROW_IN = 5.0
SIZES = ("column", "text", "slide")
SERIF = ("Times New Roman", "Nimbus Roman", "Liberation Serif", "STIXGeneral")
LIBERTINE = ("Linux Libertine O", "Libertinus Serif", *SERIF)


@dataclass(frozen=True)
class Journal:
    """What a publisher asks of figures: widths of a column and of the text, the
    font and its size.
    """

    column_in: float
    text_in: float
    font_pt: float
    families: tuple[str, ...]
    is_bold: bool = False


STYLES = {
    "plain": Journal(3.5, 6.5, 9.0, ()),
    "ieee": Journal(3.5, 7.16, 8.0, SERIF),
    "acm": Journal(3.33, 7.0, 8.0, LIBERTINE),
    "projector": Journal(5.0, SLIDE_WIDTH_IN, 20.0, (), is_bold=True),
}
#: The style that pages have as well: large letters, thick lines, full contrast.
PROJECTOR = "projector"


class Canvas(Protocol):
    """Where a figure is drawn for a caller who has a style, in place of a figure of mptcplab's."""

    #: Whether the axes are the caller's, who has a legend in them in place of names beside curves.
    is_given: bool

    def panels(self, rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
        """Returns the figure and its axes as a two-dimensional array. `options` are those of
        ``Figure.subplots``.
        """


@dataclass(frozen=True)
class Look:
    """The width of a figure, its font, and the largest height. On a `canvas`, matplotlib's settings
    are those of the caller.
    """

    width_in: float = PAGE_WIDTH_IN
    font_pt: float = PAGE_FONT_PT
    families: tuple[str, ...] = ()
    least_height_in: float = 0.0
    most_height_in: float = 40.0
    #: Whether lines are thick and labels black, to be seen from the last row.
    is_bold: bool = False
    canvas: Canvas | None = None

    @classmethod
    def of(cls, size: str, style: str) -> Look:
        """Returns the look of a size (`SIZES`) in the style of a publisher (`STYLES`)."""
        journal = STYLES[style]
        if size == "slide":
            font_pt = max(SLIDE_FONT_PT, journal.font_pt)
            heights_in = (SLIDE_HEIGHT_IN, SLIDE_HEIGHT_IN)
            return cls(SLIDE_WIDTH_IN, font_pt, journal.families, *heights_in, is_bold=journal.is_bold)
        width_in = {"column": journal.column_in, "text": journal.text_in}[size]
        return cls(width_in, journal.font_pt, journal.families, is_bold=journal.is_bold)

    @property
    def line_scale(self) -> float:
        """By what the widths of lines are multiplied."""
        return 2.0 if self.is_bold else 1.0

    @property
    def is_narrow(self) -> bool:
        """Whether legends stand below and panels in at most two columns."""
        return self.width_in < NARROW_IN

    @property
    def small_pt(self) -> float:
        """The size of the labels of events and legends."""
        return max(0.9 * self.font_pt, 7.0)

    def height_in(self, height: float) -> float:
        """Returns the height of a figure that is `height` inches high on a page."""
        asked = height * (self.width_in / PAGE_WIDTH_IN) ** HEIGHT_EXPONENT
        return float(min(max(asked, self.least_height_in), self.most_height_in))


PAGE = Look()


def colour_of(number: int | None) -> tuple[str, float]:
    """Returns the colour and opacity of an entity by its number. Without a number it is the colour
    of text.
    """
    if number is None:
        return INK, 1.0
    return PALETTE[number % len(PALETTE)], ROUNDS[min(number // len(PALETTE), len(ROUNDS) - 1)]


def style(look: Look = PAGE) -> AbstractContextManager[None]:
    """Returns matplotlib's settings for a look, as a context that restores its own settings.

    On a canvas, these are the settings as they are, except that names are always text.
    """
    import matplotlib as mpl

    return mpl.rc_context(_settings(look) if look.canvas is None else {"text.parse_math": False})


def _settings(look: Look) -> Any:
    faint = INK if look.is_bold else FAINT
    settings: dict[str, Any] = {
        "text.parse_math": False,  # names are text, even with special characters
        "font.family": "sans-serif",
        "font.size": look.font_pt,
        # Publishers refuse the default, Type 3.
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "mptcplab",
        "text.color": INK,
        "axes.edgecolor": faint,
        "axes.labelcolor": INK,
        "axes.titlesize": look.font_pt,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "legend.fontsize": look.small_pt,
        "xtick.color": faint,
        "ytick.color": faint,
        "lines.linewidth": (1.8 if look.width_in >= NARROW_IN else 1.2) * look.line_scale,
        "lines.solid_joinstyle": "round",
        "figure.facecolor": "none",
        "axes.facecolor": "none",
    }
    if look.families:
        settings |= {"font.family": "serif", "font.serif": _installed(look.families)}
    return settings


def _installed(families: tuple[str, ...]) -> list[str]:
    """Returns the families that are installed. The last one comes with matplotlib."""
    from matplotlib.font_manager import get_font_names

    known = set(get_font_names())
    return [family for family in families if family in known]
