"""The room that text needs, estimated, because figures are arranged before text can be measured."""

from __future__ import annotations

import textwrap

#: The mean width of a letter, in parts of the size of the font.
LETTER_EM = 0.56
#: Letters are not made smaller than this.
LEAST_PT = 6.0


def text_width_in(text: str, size_pt: float) -> float:
    """Returns about how wide a text is, in inches."""
    return len(text) * LETTER_EM * size_pt / 72


def in_lines(text: str, room_in: float, size_pt: float) -> str:
    """Returns a text with line breaks at spaces, so that lines fit into the room if words do."""
    letters = max(int(room_in / text_width_in("n", size_pt)), 1)
    return "\n".join(textwrap.wrap(text, letters, break_long_words=False, break_on_hyphens=False))
