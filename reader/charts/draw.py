#!/usr/bin/python3
"""Draws pictures with one small piece of text in each, a question about it and the answer.

usage: draw.py --out DIR [--seed N]                 the demo chart: chart.png, question.txt, answer.txt
       draw.py --out DIR --count N [--seed N]       N charts: 000.png ..., and a line of JSON for each in charts.jsonl
       draw.py --out DIR --count N --kind KIND      other pictures: table, map, page, screen, dark, notes

A line of JSON has: file, question, truth (the answer, exactly), label (the text as drawn),
font (points, or pixels where nothing is printed in points), box (of the label in pixels of the
file, [x0, y0, x1, y1]), size ([w, h]). The same seed draws the same pictures.

Charts are about 3970x2330 pixels, as a chart made for print is: 16x9 inches at 300 dots an
inch, less the margin. At the size that a model sees, a label of 4 to 6 points is 5 to 9 pixels high.
"""
import argparse
import json
import os
import random

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

WORDS = ["peak", "max", "high", "record", "top"]
UNITS = ["units", "orders", "visits", "litres", "points", "hours", "tonnes", "calls"]
FAMILIES = [
    ("product line", ["Widget-A", "Widget-B", "Widget-C", "Widget-D", "Widget-E", "Widget-F"]),
    ("site", ["Plant 1", "Plant 2", "Plant 3", "Plant 4", "Plant 5", "Plant 6"]),
    ("city", ["Lisbon", "Oslo", "Prague", "Turin", "Vienna", "Zagreb"]),
    ("sensor", ["S-101", "S-102", "S-103", "S-104", "S-105", "S-106"]),
]
SUBJECTS = ["production", "demand", "traffic", "output", "load"]
PERIODS = ["Monthly", "Weekly", "Daily"]
QUESTIONS = [
    "What exact value is annotated at the peak of {name}?",
    "What value does the label at the {name} peak give?",
    "What is the maximum of {name}, according to the note in the chart?",
    "How many {unit} did {name} reach at its highest point?",
    "Read the number printed at the highest point of {name}.",
    "What figure is marked at the top of the {name} curve?",
    "What was the record value for {name}?",
]


def series(r, g, value, peak_at, count=400, lines=6):
    """Noisy lines below value, and the one (its number is returned) that peaks at value."""
    x = np.arange(count)
    chosen = r.randrange(lines)
    ys = []
    for _ in range(lines):
        y = value * r.uniform(0.2, 0.6) + np.cumsum(g.normal(0, value * 0.012, count)) + g.normal(0, value * 0.03, count)
        ys.append(np.clip(y, 0, value * 0.88))
    bump = np.exp(-(((x - peak_at) / r.uniform(5, 14)) ** 2))
    y = ys[chosen] + (value - ys[chosen][peak_at]) * bump
    y = np.minimum(y, value * 0.985)
    y[peak_at] = value
    ys[chosen] = y
    return x, ys, chosen


def save(fig, text, path, dpi=300):
    """Writes the figure cropped to what is in it; returns the box of text in pixels of the file, and its size."""
    pad = 0.1
    fig.set_dpi(dpi)
    fig.canvas.draw()
    renderer = fig.canvas.get_renderer()
    tight = fig.get_tightbbox(renderer)  # inches
    box = text.get_window_extent(renderer)  # pixels, origin at the bottom left
    fig.savefig(path, dpi=dpi, bbox_inches="tight", pad_inches=pad, facecolor=fig.get_facecolor())
    plt.close(fig)
    height, width = plt.imread(path).shape[:2]
    left, top = (tight.x0 - pad) * dpi, (tight.y1 + pad) * dpi
    return [round(box.x0 - left), round(top - box.y1), round(box.x1 - left), round(top - box.y0)], [width, height]


def chart(path, seed, font=None, family=None, chosen=None, value=None, label=None, question=None, title=None, unit=None, dark=False):
    """One chart of six noisy lines with a small note at the peak of one of them."""
    r, g = random.Random(seed), np.random.default_rng(seed)
    font = font or r.choice([4, 4.5, 5, 5.5, 6])
    value = value or r.randint(1000, 98999)
    by, names = family or r.choice(FAMILIES)
    unit = unit or r.choice(UNITS)
    word = r.choice(WORDS)
    peak_at = r.randint(40, 360)
    x, ys, line = series(r, g, value, peak_at)
    if chosen is not None:
        ys[line], ys[chosen] = ys[chosen], ys[line]
        line = chosen
    truth = f"{value:,} {unit}"
    label = label or r.choice(
        [f"{word}: {truth}"] * 4 + [f"{word} {truth}", f"{names[line]} {word}: {truth}", f"{word} = {truth}"])
    question = question or r.choice(QUESTIONS).format(name=names[line], unit=unit)

    with plt.style.context("dark_background" if dark else "default"):
        fig, ax = plt.subplots(figsize=(16, 9))
        for name, y in zip(names, ys):
            ax.plot(x, y, lw=0.8, label=name)
        offset = (r.choice([-30, -12, 4, 6]), r.choice([2, 3, 4]))
        note = ax.annotate(label, (peak_at, value), xytext=offset, textcoords="offset points", fontsize=font)
        ax.set_title(title or f"{r.choice(PERIODS)} {r.choice(SUBJECTS)} by {by}")
        ax.set_xlabel("period")
        ax.set_ylabel(unit)
        ax.legend(loc=r.choice(["lower right", "lower left", "lower center"]))
        ax.grid(alpha=0.3)
        box, size = save(fig, note, path)
    return dict(file=os.path.basename(path), question=question, truth=truth, label=label, font=font, box=box, size=size)


def demo(path, seed):
    """The chart of the demonstration."""
    return chart(
        path, 6053 + seed, font=5, family=FAMILIES[0], chosen=2, value=6053, unit="units", label="peak: 6,053 units",
        title="Monthly production by product line", question="What exact value is annotated at the peak of Widget-C?")


def dark(path, seed):
    """A chart in light on dark."""
    return chart(path, seed, dark=True)


def notes(path, seed):
    """A chart with a note at one peak, notes of other kinds elsewhere, and a small footnote."""
    r, g = random.Random(seed), np.random.default_rng(seed)
    value, low = r.randint(2000, 9899), r.randint(100, 999)
    x, ys, line = series(r, g, value, r.randint(60, 340))
    by, names = r.choice(FAMILIES)
    unit = r.choice(UNITS)
    fig, ax = plt.subplots(figsize=(16, 9))
    for name, y in zip(names, ys):
        ax.plot(x, y, lw=0.8, label=name)
    at = int(np.argmax(ys[line]))
    ax.annotate(f"target: {value - low:,} {unit}", (20, value * 0.95), fontsize=5)
    ax.annotate(f"min: {low} {unit}", (r.randint(60, 300), value * 0.02), fontsize=5)
    peak = ax.annotate(f"max: {value:,} {unit}", (at, value), xytext=(5, 3), textcoords="offset points", fontsize=5)
    ax.text(0.01, -0.08, f"Source: survey of {r.randint(2001, 2020)}, n = {r.randint(100, 999)}", transform=ax.transAxes, fontsize=5)
    ax.set_title(f"Demand by {by}")
    ax.legend(loc="lower right")
    ax.grid(alpha=0.3)
    box, size = save(fig, peak, path)
    return dict(
        file=os.path.basename(path), question=f"What exact value is annotated at the peak of {names[line]}?",
        truth=f"{value:,} {unit}", label=f"max: {value:,} {unit}", font=5, box=box, size=size)


def font(pixels, bold=False):
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(os.path.join(matplotlib.get_data_path(), "fonts", "ttf", name), pixels)


def canvas(width, height, ground="white"):
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width, height), ground)
    return image, ImageDraw.Draw(image)


def table(path, seed):
    """A large table in small print; the question asks for one cell."""
    r = random.Random(seed)
    px = r.choice([18, 20, 22])
    rows = [f"{a} {b}" for a in ["Bolt", "Nut", "Washer", "Screw", "Rivet", "Anchor"] for b in ["M4", "M6", "M8", "M10", "M12"]]
    columns = ["North", "South", "East", "West", "Central", "Export"]
    image, draw = canvas(2600, 200 + len(rows) * 64)
    draw.text((80, 40), "Stock by warehouse", font=font(52, True), fill="black")
    cells = [[r.randint(100, 9999) for _ in columns] for _ in rows]
    for c, name in enumerate(columns):
        draw.text((820 + c * 290, 130), name, font=font(px, True), fill="black", anchor="rt")
    for i, name in enumerate(rows):
        y = 180 + i * 64
        draw.line((80, y - 16, 2520, y - 16), fill="#c0c0c0", width=2)
        draw.text((90, y), name, font=font(px), fill="black")
        for c in range(len(columns)):
            draw.text((820 + c * 290, y), f"{cells[i][c]:,}", font=font(px), fill="black", anchor="rt")
    i, c = r.randrange(len(rows)), r.randrange(len(columns))
    truth = f"{cells[i][c]:,}"
    box = [round(v) for v in draw.textbbox((820 + c * 290, 180 + i * 64), truth, font=font(px), anchor="rt")]
    image.save(path)
    return dict(
        file=os.path.basename(path), question=f"How many {rows[i]} are in stock in the {columns[c]} warehouse?", truth=truth,
        label=truth, font=px, box=box, size=list(image.size))


def plan(path, seed):
    """A map of patches and roads with names; each place has its height written below it in small print."""
    r = random.Random(seed)
    image, draw = canvas(3600, 2400, "#eef3e6")
    for _ in range(60):
        x, y, s = r.randrange(3600), r.randrange(2400), r.randrange(80, 420)
        draw.ellipse((x, y, x + s, y + s * r.uniform(0.4, 1)), fill=r.choice(["#d5e8c8", "#c9dff2", "#f3ead2", "#e4eed8"]))
    for _ in range(18):
        points = [(r.randrange(3600), r.randrange(2400)) for _ in range(4)]
        draw.line(points, fill=r.choice(["#e0a050", "#ffffff", "#b0b0b0"]), width=r.randrange(4, 14), joint="curve")
    names = ["Alder Hill", "Brook End", "Cold Moor", "Dene Top", "Elm Ridge", "Fox Tor", "Gale Fell", "Holm Crag", "Ivy Peak", "Kite Law"]
    spots = [(300 + 640 * (k % 5) + r.randrange(120), 350 + 950 * (k // 5) + r.randrange(500)) for k in range(10)]
    r.shuffle(spots)
    px = r.choice([18, 20, 22])
    heights = [r.randint(201, 998) for _ in names]
    chosen = r.randrange(len(names))
    for k, (x, y) in enumerate(spots):
        draw.polygon([(x, y - 14), (x - 12, y + 8), (x + 12, y + 8)], fill="#704020")
        draw.text((x, y + 16), names[k], font=font(34, True), fill="#303030", anchor="mt")
        draw.text((x, y + 60), f"{heights[k]} m", font=font(px), fill="#303030", anchor="mt")
    x, y = spots[chosen]
    truth = f"{heights[chosen]} m"
    box = [round(v) for v in draw.textbbox((x, y + 60), truth, font=font(px), anchor="mt")]
    image.save(path)
    return dict(
        file=os.path.basename(path), question=f"How high is {names[chosen]}, as written on the map?", truth=truth, label=truth,
        font=px, box=box, size=list(image.size))


WORDLIST = """the of and a to in is that it was for on with as be at by this had not are but from or have an they which one were all
we when there can more if no out so said what up its about than into them only other time new some could these two may then do first any
my now such like our over man me even most made after also did many before must through back years where much your way well down should
because each just those people how too little state good very make world still own see men work long get here between both life being""".split()


def page(path, seed):
    """A scanned page: text in small print, a little skew and noise; one paragraph names a date, a code and a sum."""
    from PIL import Image, ImageFilter

    r, g = random.Random(seed), np.random.default_rng(seed)
    image, draw = canvas(2480, 3508, "#f7f4ec")
    px = 30
    code = f"{r.choice('ABCDEFGH')}{r.choice('KLMNPRST')}-{r.randint(10000, 99999)}"
    total = f"${r.randint(1, 9)},{r.randint(100, 999)}.{r.randint(10, 99)}"
    due = f"{r.randint(10, 28)} {r.choice(['March', 'May', 'October', 'November'])} {r.randint(2021, 2029)}"
    facts = [("Reference number", code, "What is the reference number?"), ("Amount due", total, "What is the amount due?"),
             ("Payment date", due, "What is the payment date?")]
    draw.text((300, 260), "Notice of settlement", font=font(64, True), fill="#202020")
    y, left, spot = 420, 300, r.randrange(3)
    box = None
    for paragraph in range(14):
        for _ in range(r.randint(3, 6)):
            line = ""
            while draw.textlength(line, font=font(px)) < 1750:
                line += r.choice(WORDLIST) + " "
            draw.text((left, y), line.strip(), font=font(px), fill="#202020")
            y += 46
        y += 34
        if paragraph in (3, 6, 9):
            k = paragraph // 3 - 1
            text = f"{facts[k][0]}: {facts[k][1]}"
            draw.text((left, y), text, font=font(px), fill="#202020")
            if k == spot:
                box = [round(v) for v in draw.textbbox((left, y), text, font=font(px))]
            y += 80
        if y > 3250:
            break
    image = image.rotate(r.uniform(-0.4, 0.4), resample=Image.BICUBIC, fillcolor="#f7f4ec").filter(ImageFilter.GaussianBlur(0.7))
    pixels = np.asarray(image).astype(int) + g.normal(0, 6, (3508, 2480, 1)).astype(int)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    return dict(
        file=os.path.basename(path), question=facts[spot][2], truth=facts[spot][1], label=facts[spot][1], font=px, box=box,
        size=[2480, 3508])


def screen(path, seed):
    """A window with a form in interface print, in light or in dark; values stand right of their names."""
    r = random.Random(seed)
    night = r.random() < 0.5
    ground, panel, ink, faint = ("#1e1f22", "#2b2d30", "#dfe1e5", "#9da0a8") if night else ("#f2f2f2", "#ffffff", "#202020", "#6a6a6a")
    image, draw = canvas(1920, 1080, ground)
    draw.rectangle((0, 0, 1920, 48), fill="#3574f0")
    draw.text((20, 14), "Settings - Network adapters", font=font(18), fill="white")
    draw.rectangle((0, 48, 320, 1080), fill=panel)
    for k, name in enumerate(["Overview", "Devices", "Network", "Storage", "Accounts", "Updates", "About"]):
        draw.text((30, 80 + k * 44), name, font=font(15), fill=ink)
    ip = ".".join(str(r.randint(11, 250)) for _ in range(4))
    serial = f"{r.choice('XYZW')}{r.randint(100, 999)}-{r.randint(1000, 9999)}"
    speed, sent = r.randint(100, 990), f"{r.randint(1, 9)},{r.randint(100, 999)}"
    rows = [("Serial number", serial, "What is the serial number?"), ("Link speed", f"{speed} Mbps", "What is the link speed value?"),
            ("Packets sent", sent, "How many packets were sent?"), ("IPv4 address", ip, "What is the IPv4 address code?")]
    extra = [("State", "Connected"), ("Driver", "Generic wired"), ("Name server", "automatic"), ("Metered", "no")]
    order = rows[:3] + [(a, b, "") for a, b in extra]
    r.shuffle(order)
    pick = r.choice(rows[:3])
    box = None
    for k, (name, value, _) in enumerate(order):
        y = 140 + k * 58
        draw.text((380, y), name, font=font(14), fill=faint)
        draw.text((680, y), value, font=font(14), fill=ink)
        if name == pick[0]:
            box = [round(v) for v in draw.textbbox((680, y), value, font=font(14))]
        draw.line((380, y + 38, 1860, y + 38), fill=panel if not night else "#3a3c40")
    image.save(path)
    return dict(
        file=os.path.basename(path), question=pick[2], truth=pick[1], label=pick[1], font=14, box=box, size=[1920, 1080])


KINDS = dict(chart=chart, dark=dark, notes=notes, table=table, map=plan, page=page, screen=screen)


def main():
    parser = argparse.ArgumentParser(description="Draw pictures with small print, a question and its answer for each.")
    parser.add_argument("--out", required=True, help="the folder to write to; made when missing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="how many; the demo chart alone when left out")
    parser.add_argument("--kind", choices=sorted(KINDS), default="chart")
    a = parser.parse_args()
    os.makedirs(a.out, exist_ok=True)
    if a.count is None:
        drawn = demo(os.path.join(a.out, "chart.png"), a.seed)
        for name, text in (("question.txt", drawn["question"]), ("answer.txt", drawn["truth"])):
            with open(os.path.join(a.out, name), "w", encoding="utf-8") as f:
                f.write(text + "\n")
        return
    with open(os.path.join(a.out, "charts.jsonl"), "w", encoding="utf-8") as f:
        for i in range(a.count):
            drawn = KINDS[a.kind](os.path.join(a.out, f"{i:03d}.png"), a.seed * 1000 + i)
            f.write(json.dumps(drawn) + "\n")
            f.flush()


if __name__ == "__main__":
    main()
