# ruff: noqa: SIM905, E501
"""Typed values for the slots of templates: plausible, many, and nobody's.

Telephone numbers, domains and addresses come from ranges reserved for examples (555-01xx, RFC 2606, RFC 5737).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_GIVEN = (
    "Ada Amara Anders Aiko Bruno Bianca Carlos Chen Clara Dana David Elena Emil Farid Fatima Grace Hugo Hana Igor Ines Ivan "
    "Jack Jamal Julia Kofi Karin Kenji Lars Leila Liam Lucia Marco Maria Mei Milan Nadia Noah Nina Olga Omar Oscar Paula "
    "Pedro Priya Quinn Rafael Rosa Ruth Sami Sara Sofia Stefan Tara Theo Tomas Uma Vera Victor Wanda Xavier Yara Yusuf Zoe"
).split()
_FAMILY = (
    "Abbott Adler Almeida Baker Bauer Becker Brandt Brooks Castro Chavez Cohen Costa Cruz Dalton Diaz Dubois Eriksen Evans "
    "Fischer Flores Garcia Gomez Grant Haas Hansen Hayes Ito Ivanov Jensen Jones Kaya Keller Khan Kim Klein Kovacs Lam "
    "Larsen Lopez Martin Meyer Mills Moreau Mori Nguyen Novak Okafor Olsen Ortiz Park Patel Perez Quiroga Reyes Rossi Ruiz "
    "Santos Sato Silva Singh Stone Tanaka Torres Turner Ueda Varga Vogel Walker Weber Wolf Wong Yilmaz Young Zhang Ziegler"
).split()
_CITIES = (
    "Aarhus Accra Antwerp Athens Austin Bergen Bilbao Boston Bristol Cairo Calgary Chicago Cork Dakar Dallas Delhi Denver "
    "Dublin Geneva Ghent Hanoi Helsinki Istanbul Kyoto Lagos Leeds Lima Lisbon London Lyon Madrid Malmo Manila Milan "
    "Montreal Nairobi Nantes Naples Oslo Ottawa Paris Perth Porto Prague Quito Riga Rome Seattle Seoul Seville Sofia "
    "Stockholm Sydney Tallinn Tokyo Toronto Turin Utrecht Vienna Warsaw Zagreb Zurich"
).split()
_THINGS = (
    "anvil backpack basket blender bottle bracket camera candle carpet chair charger clock compass cushion desk drill fan "
    "filter flask folder fork frame funnel glove hammer headset heater helmet hinge jacket kettle keyboard ladder lamp "
    "laptop lens lock magnet mirror monitor mouse mug notebook oven paddle pan pen phone pillow plate printer pump radio "
    "router ruler saw scanner scarf screw shelf shovel sofa speaker stapler stool stove table tablet tent tire toaster "
    "towel tray tripod umbrella valve vase wallet watch wheel wrench"
).split()
_ADJECTIVES = (
    "amber basic black blue bold bright bronze calm classic compact copper cotton crisp dark deluxe digital dry electric fast "
    "fine flat folding fresh gold grand gray green heavy large light long metal mini modern narrow navy new old orange "
    "plain portable quick quiet red round royal sharp silver simple slim small smart soft solid steel strong thin tiny "
    "travel vintage warm white wide wooden yellow"
).split()
_TOPICS = (
    "adventure algebra architecture astronomy baking biology botany chemistry chess cinema climate cooking cycling dance "
    "design drama economics education ecology energy engineering ethics fashion finance fishing gardening genetics geology "
    "geometry grammar health hiking history hockey jazz journalism kayaking law logic marketing mathematics medicine music "
    "mythology nutrition painting philosophy photography physics poetry politics psychology robotics running sailing "
    "sculpture skiing sociology statistics surfing swimming tennis theatre tourism travel writing yoga zoology"
).split()
_FIRMS = (
    "Acorn Apex Arbor Atlas Aurora Beacon Birch Blue Harbor Bright Canyon Cedar Clear Comet Coral Crest Delta Echo Ember "
    "Falcon Fern Forge Glacier Granite Grove Harvest Helix Horizon Iris Juniper Lark Linden Lotus Maple Meadow Meridian Nova "
    "Oak Onyx Orchid Osprey Pioneer Quartz Raven Ridge River Sable Sierra Spruce Summit Tern Tidal Timber Vertex Willow"
).split()
_STATES = (
    "active approved archived cancelled closed completed confirmed delayed delivered draft failed new open paid".split()
)
_STATES += "paused pending queued ready rejected resolved returned scheduled shipped stopped waiting".split()
_COLOURS = (
    "black blue brown cyan gold gray green indigo ivory lime magenta maroon navy olive orange pink purple red".split()
)
_COLOURS += "salmon silver tan teal turquoise violet white yellow".split()
_LEVELS = "low medium high urgent critical minor major normal".split()


def _slug(random: Random) -> str:
    return f"{random.choice(_GIVEN)}.{random.choice(_FAMILY)}".lower()


def _date(random: Random) -> str:
    return f"{random.randint(2018, 2029)}-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}"


KINDS: dict[str, Callable[[Random], str]] = {
    "person": lambda r: f"{r.choice(_GIVEN)} {r.choice(_FAMILY)}",
    "given_name": lambda r: r.choice(_GIVEN),
    "city": lambda r: r.choice(_CITIES),
    "company": lambda r: (
        f"{r.choice(_FIRMS)} {r.choice(['Labs', 'Ltd', 'Group', 'Works', 'Partners', 'Systems', 'Foods'])}"
    ),
    "product": lambda r: f"{r.choice(_ADJECTIVES)} {r.choice(_THINGS)}",
    "thing": lambda r: r.choice(_THINGS),
    "topic": lambda r: r.choice(_TOPICS),
    "title": lambda r: f"The {r.choice(_ADJECTIVES).title()} {r.choice(_THINGS).title()}",
    "colour": lambda r: r.choice(_COLOURS),
    "state": lambda r: r.choice(_STATES),
    "level": lambda r: r.choice(_LEVELS),
    "date": _date,
    "time": lambda r: f"{r.randint(0, 23):02d}:{r.choice((0, 5, 10, 15, 20, 25, 30, 40, 45, 50)):02d}",
    "money": lambda r: f"{r.randint(1, 4999)}.{r.randint(0, 99):02d}",
    "count": lambda r: str(r.randint(1, 60)),
    "integer": lambda r: str(r.randint(10, 9999)),
    "decimal": lambda r: f"{r.randint(0, 99)}.{r.randint(1, 9)}",
    "percent": lambda r: f"{r.randint(1, 99)}%",
    "code": lambda r: f"{''.join(r.choices('ABCDEFGHJKLMNPQRSTUVWXYZ', k=2))}-{r.randint(100, 99999)}",
    "phone": lambda r: f"({r.randint(201, 989)}) 555-01{r.randint(0, 99):02d}",
    "email": lambda r: f"{_slug(r)}@{r.choice(('example.com', 'example.org', 'example.net'))}",
    "url": lambda r: f"https://{r.choice(_THINGS)}.example.com/{r.choice(_TOPICS)}",
    "address": lambda r: f"{r.randint(1, 400)} {r.choice(_FAMILY)} {r.choice(('Street', 'Road', 'Avenue', 'Lane'))}",
    "ip": lambda r: f"{r.choice(('192.0.2', '198.51.100', '203.0.113'))}.{r.randint(1, 254)}",
    "version": lambda r: f"{r.randint(0, 9)}.{r.randint(0, 20)}.{r.randint(0, 9)}",
    "flag": lambda r: r.choice(("true", "false")),
}
"""What a slot can hold, by the name of its type."""

NUMERIC = frozenset({"money", "count", "integer", "decimal"})
"""Types that are written without quotation marks."""
