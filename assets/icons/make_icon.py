"""Draw the application's icon: a draft of four tokens, three kept, one struck. Run: python assets/icons/make_icon.py"""

from pathlib import Path

from PIL import Image, ImageDraw

SIZE, SCALE = 512, 4
INK, KEPT, REFUSED, PAPER = "#15181e", "#2cc597", "#ff8a54", "#ffffff"


def draw() -> Image.Image:
    """The icon, drawn large and made small for smooth edges."""
    side = SIZE * SCALE
    image = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    pen = ImageDraw.Draw(image)
    unit = side / 16
    pen.rounded_rectangle((0, 0, side - 1, side - 1), radius=3 * unit, fill=INK)
    pen.rounded_rectangle((2 * unit, 3.5 * unit, 14 * unit, 5.5 * unit), radius=unit, fill=PAPER)
    for i, colour in enumerate((KEPT, KEPT, KEPT, REFUSED)):
        left = (2 + 3.1 * i) * unit
        pen.rounded_rectangle((left, 8 * unit, left + 2.6 * unit, 12 * unit), radius=0.7 * unit, fill=colour)
    pen.line((10.7 * unit, 12.9 * unit, 14.5 * unit, 7.1 * unit), fill=PAPER, width=round(0.7 * unit))
    return image.resize((SIZE, SIZE), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    draw().save(Path(__file__).with_name("icon.png"), optimize=True)
