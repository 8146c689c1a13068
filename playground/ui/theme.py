"""The page's theme: quiet, high in contrast, no font from another host."""

import gradio as gr

from playground.models import ASSETS

STYLE = ASSETS / "style"
CSS_PATHS = [
    STYLE / "tokens.css",
    STYLE / "page.css",
    STYLE / "live.css",
    STYLE / "lessons.css",
    STYLE / "compare.css",
    STYLE / "reckon.css",
    STYLE / "history.css",
    STYLE / "prove.css",
    STYLE / "share.css",
    STYLE / "everyone.css",  # last: it adjusts the others
]


def theme() -> gr.themes.Base:
    """Gradio's base theme in the page's own colours (CSS variables of tokens.css)."""
    made = gr.themes.Base(
        primary_hue="slate",
        secondary_hue="slate",
        neutral_hue="slate",
        radius_size="sm",
        spacing_size="sm",
        text_size="sm",
        font=[gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif"],
        font_mono=[gr.themes.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace"],
    )
    both = {
        "body_background_fill": "var(--sp-paper)",
        "body_text_color": "var(--sp-ink)",
        "body_text_color_subdued": "var(--sp-muted)",
        "background_fill_primary": "var(--sp-paper)",
        "background_fill_secondary": "var(--sp-panel)",
        "block_background_fill": "transparent",
        "block_border_width": "0px",
        "block_label_text_color": "var(--sp-ink)",
        "block_title_text_color": "var(--sp-ink)",
        "block_title_text_weight": "600",
        "block_info_text_color": "var(--sp-muted)",
        "block_shadow": "none",
        "border_color_primary": "var(--sp-line)",
        "input_background_fill": "var(--sp-paper)",
        "input_border_color": "var(--sp-strong-line)",
        "input_placeholder_color": "var(--sp-muted)",
        "slider_color": "var(--sp-ink)",
        "color_accent": "var(--sp-ink)",
        "color_accent_soft": "var(--sp-panel)",
        "checkbox_background_color": "var(--sp-paper)",
        "checkbox_background_color_hover": "var(--sp-paper)",
        "checkbox_background_color_selected": "var(--sp-check)",
        "checkbox_border_color": "var(--sp-strong-line)",
        "checkbox_border_color_selected": "var(--sp-check)",
        "checkbox_label_background_fill": "var(--sp-paper)",
        "checkbox_label_background_fill_selected": "var(--sp-paper)",
        "checkbox_label_border_color": "var(--sp-line)",
        "button_primary_background_fill": "var(--sp-ink)",
        "button_primary_background_fill_hover": "var(--sp-muted)",
        "button_primary_text_color": "var(--sp-paper)",
        "button_secondary_background_fill": "var(--sp-panel)",
        "button_secondary_background_fill_hover": "var(--sp-line)",
        "button_secondary_text_color": "var(--sp-ink)",
        "button_secondary_border_color": "var(--sp-line)",
        "accordion_text_color": "var(--sp-ink)",
        "panel_background_fill": "var(--sp-panel)",
    }
    return made.set(**both, **{f"{name}_dark": value for name, value in both.items() if name in _DARK})


_DARK = {
    "body_background_fill", "body_text_color", "body_text_color_subdued", "background_fill_primary",
    "background_fill_secondary", "block_background_fill", "block_border_width", "block_label_text_color",
    "block_title_text_color", "block_info_text_color", "block_shadow", "border_color_primary",
    "input_background_fill", "input_border_color", "input_placeholder_color", "slider_color", "color_accent_soft",
    "checkbox_background_color", "checkbox_background_color_hover", "checkbox_border_color",
    "checkbox_background_color_selected", "checkbox_border_color_selected", "checkbox_label_background_fill",
    "checkbox_label_background_fill_selected", "checkbox_label_border_color", "button_primary_background_fill",
    "button_primary_background_fill_hover", "button_primary_text_color", "button_secondary_background_fill",
    "button_secondary_background_fill_hover", "button_secondary_text_color", "button_secondary_border_color",
    "accordion_text_color", "panel_background_fill",
}  # fmt: skip
