//! Themes: what holds for every file that comes with the program.

use ratatui::style::{Color, Modifier};
use spectop::ui::color;
use spectop::ui::theme::{BUILT_IN, Role, Theme};

fn linear(c: [u8; 3]) -> [f64; 3] {
    c.map(|v| {
        let v = f64::from(v) / 255.0;
        if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    })
}

/// A colour as somebody without green cones sees it (Machado and others, 2009, full severity), in linear light.
fn deuteranopia(c: [u8; 3]) -> [f64; 3] {
    let [r, g, b] = linear(c);
    [
        (0.367_322 * r + 0.860_646 * g - 0.227_968 * b).clamp(0.0, 1.0),
        (0.280_085 * r + 0.672_501 * g + 0.047_413 * b).clamp(0.0, 1.0),
        (-0.011_820 * r + 0.042_940 * g + 0.968_881 * b).clamp(0.0, 1.0),
    ]
}

/// CIE L*a*b* of linear sRGB.
fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
    let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
    let y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
    let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn difference(a: [f64; 3], b: [f64; 3]) -> f64 {
    lab(a).iter().zip(lab(b)).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn accepted_and_rejected_differ_without_green_cones_and_without_colour() {
    // Red and green of one lightness are what must not pass.
    assert!(difference(deuteranopia([0xb0, 0x3a, 0x2e]), deuteranopia([0x70, 0x5e, 0x28])) < 12.0);
    for (name, _) in BUILT_IN {
        let theme = Theme::built_in(name).expect("built in");
        let [accepted, rejected] = [Role::TokenAccepted, Role::TokenRejected].map(|r| theme.style(r));
        assert!(rejected.add_modifier.contains(Modifier::CROSSED_OUT), "{name}");
        assert!(!accepted.add_modifier.contains(Modifier::CROSSED_OUT), "{name}");
        let colors = [Role::TokenAccepted, Role::TokenRejected].map(|r| color::rgb(theme.color(r)));
        let [Some(a), Some(r)] = colors else {
            assert_eq!(name, "mono", "only mono leaves tokens to the terminal");
            continue;
        };
        let seen = difference(deuteranopia(a), deuteranopia(r));
        assert!(seen >= 12.0, "{name}: {seen:.1}");
    }
}

#[test]
fn every_role_is_defined_and_mono_has_no_colour() {
    for (name, _) in BUILT_IN {
        let theme = Theme::built_in(name).unwrap_or_else(|e| panic!("{e}"));
        let set = Role::ALL.iter().filter(|r| theme.color(**r) != Color::Reset).count();
        match name {
            "mono" => assert_eq!(set, 0),
            "ansi16" => assert!(set > 15, "{name}: {set}"),
            _ => assert_eq!(set, Role::ALL.len(), "{name} leaves colours to the terminal"),
        }
        if name == "ansi16" {
            let own = |c: Color| !matches!(c, Color::Rgb(..) | Color::Indexed(16..));
            assert!(Role::ALL.iter().all(|r| own(theme.color(*r))));
        }
    }
}
