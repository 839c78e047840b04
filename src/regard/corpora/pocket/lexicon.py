"""The words of the pocket corpus. Where one English word has two Spanish ones, the grammar decides by context."""

from dataclasses import dataclass

from regard.corpora.pocket.spanish import Conjugation, Gender, agree, conjugate, plural


@dataclass(frozen=True, slots=True, eq=False)  # two entries are the same only if they are one: "letter", "letter"
class Noun:
    english: tuple[str, str]  # one, many
    spanish: tuple[str, str]
    gender: Gender
    stressed_a: bool = False  # feminine, but "el agua": the article may not meet a stressed a


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    english: str
    spanish: str
    before: bool = False  # stands before its noun in Spanish too
    short: str = ""  # the form before a singular noun: un buen libro, una gran reina
    short_feminine: bool = False
    comparative: str = ""

    def form(self, gender: Gender, is_plural: bool) -> str:
        if self.short and not is_plural and (gender == "m" or self.short_feminine):
            return self.short
        return agree(self.spanish, gender, is_plural)


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    base: str
    third: str
    past: str
    ing: str
    spanish: Conjugation
    particle: str = ""  # "for" in "wait for", which is all in "esperar"


def _nouns(table: str) -> dict[str, Noun]:
    """Lines of `english spanish gender`; an irregular English plural follows a slash."""
    nouns = {}
    for line in table.strip().splitlines():
        english, spanish, gender = line.split()
        one, _, many = english.partition("/")
        many = many or (one[:-1] + "ies" if one.endswith("y") else one + "es" if one[-1] in "sx" else one + "s")
        nouns[one] = Noun((one, many), (spanish, plural(spanish)), "f" if gender == "f" else "m", spanish == "agua")
    return nouns


PEOPLE = _nouns("""
man/men hombre m
woman/women mujer f
boy/boys niño m
girl niña f
king rey m
queen reina f
actor actor m
actress actriz f
waiter camarero m
waitress camarera f
""")
FAMILY = _nouns("""
brother hermano m
sister hermana f
father padre m
mother madre f
son hijo m
daughter hija f
""")
HUMANS = frozenset([*PEOPLE.values(), *FAMILY.values()])
ANIMALS = _nouns("""
dog perro m
cat gato m
horse caballo m
bird pájaro m
""")
THINGS = _nouns("""
house casa f
car coche m
table mesa f
chair silla f
door puerta f
window ventana f
bicycle bicicleta f
box caja f
book libro m
newspaper periódico m
picture cuadro m
flower flor f
map mapa m
hat sombrero m
shirt camisa f
song canción f
letter carta f
""")
FOOD = _nouns("""
bread pan m
cheese queso m
rice arroz m
meat carne f
soup sopa f
fish/fish pescado m
""")
FRUIT = _nouns("""
apple manzana f
orange naranja f
egg huevo m
""")
DRINKS = _nouns("""
water agua f
milk leche f
wine vino m
coffee café m
tea té m
""")
PLACES = _nouns("""
garden jardín m
kitchen cocina f
city ciudad f
park parque m
street calle f
market mercado m
station estación f
school escuela f
""")
KNOWN_FACTS = _nouns("""
answer respuesta f
truth verdad f
name nombre m
number número m
""")
INSTRUMENTS = _nouns("""
guitar guitarra f
piano piano m
violin violín m
""")
GAMES = {"football": "fútbol", "tennis": "tenis", "chess": "ajedrez"}  # all masculine
LIVE_FISH = Noun(("fish", "fish"), ("pez", "peces"), "m")
ALPHABET_LETTER = Noun(("letter", "letters"), ("letra", "letras"), "f")
WORD = Noun(("word", "words"), ("palabra", "palabras"), "f")
TUMBLER = Noun(("glass", "glasses"), ("vaso", "vasos"), "m")
WINE_GLASS = Noun(("glass", "glasses"), ("copa", "copas"), "f")
YEAR = Noun(("year", "years"), ("año", "años"), "m")
OCCASION = Noun(("time", "times"), ("vez", "veces"), "f")

NAMES: dict[str, Gender] = {"Ana": "f", "Carmen": "f", "Pedro": "m", "Luis": "m"}
CITIES = {"Madrid": "Madrid", "London": "Londres", "Lisbon": "Lisboa"}

COLORS = [
    Adjective("red", "rojo"),
    Adjective("white", "blanco"),
    Adjective("black", "negro"),
    Adjective("yellow", "amarillo"),
    Adjective("green", "verde"),
    Adjective("blue", "azul"),
]
OF_THINGS = [
    Adjective("small", "pequeño", comparative="smaller"),
    Adjective("big", "grande", comparative="bigger"),
    Adjective("new", "nuevo", comparative="newer"),
    Adjective("old", "viejo", comparative="older"),
    Adjective("expensive", "caro"),
    Adjective("cheap", "barato", comparative="cheaper"),
]
OF_PEOPLE = [
    Adjective("tall", "alto", comparative="taller"),
    Adjective("young", "joven", comparative="younger"),
    Adjective("rich", "rico", comparative="richer"),
    Adjective("strong", "fuerte", comparative="stronger"),
    Adjective("famous", "famoso"),
    Adjective("intelligent", "inteligente"),
]
OF_FOOD = [Adjective("hot", "caliente"), Adjective("cold", "frío"), Adjective("cheap", "barato")]
GOOD = Adjective("good", "bueno", before=True, short="buen")
BAD = Adjective("bad", "malo", before=True, short="mal")
GREAT = Adjective("great", "grande", before=True, short="gran", short_feminine=True)
FIRST = Adjective("first", "primero", before=True, short="primer")
LAST = Adjective("last", "último", before=True)

# Temporary states take "estar"; permanent properties take "ser".
MOODS = [
    Adjective("tired", "cansado"),
    Adjective("sad", "triste"),
    Adjective("ill", "enfermo"),
    Adjective("busy", "ocupado"),
]
STATES = [Adjective("clean", "limpio"), Adjective("dirty", "sucio"), Adjective("broken", "roto")]
OPEN_OR_CLOSED = [Adjective("open", "abierto"), Adjective("closed", "cerrado")]
FEELINGS = {"hungry": "hambre", "thirsty": "sed", "cold": "frío", "in a hurry": "prisa"}  # with "tener"


def _verb(english: str, spanish: Conjugation, particle: str = "") -> Verb:
    base, third, past, ing = english.split()
    return Verb(base, third, past, ing, spanish, particle)


EAT = _verb("eat eats ate eating", conjugate("comer"))
DRINK = _verb("drink drinks drank drinking", conjugate("beber"))
COOK = _verb("cook cooks cooked cooking", conjugate("cocinar"))
READ = _verb("read reads read reading", conjugate("leer", past="leí leíste leyó leímos leyeron", gerund="leyendo"))
WRITE = _verb("write writes wrote writing", conjugate("escribir"))
SEND = _verb("send sends sent sending", conjugate("enviar", present="envío envías envía enviamos envían"))
GIVE = _verb("give gives gave giving", conjugate("dar", present="doy", past="di diste dio dimos dieron"))
SELL = _verb("sell sells sold selling", conjugate("vender"))
BUY = _verb("buy buys bought buying", conjugate("comprar"))
PAINT = _verb("paint paints painted painting", conjugate("pintar"))
OPEN = _verb("open opens opened opening", conjugate("abrir"))
CLOSE = _verb("close closes closed closing", conjugate("cerrar", present="cierro cierras cierra cerramos cierran"))
CLEAN = _verb("clean cleans cleaned cleaning", conjugate("limpiar"))
SEE = _verb("see sees saw seeing", conjugate("ver", present="veo", past="vi viste vio"))
VISIT = _verb("visit visits visited visiting", conjugate("visitar"))
SING = _verb("sing sings sang singing", conjugate("cantar"))
WAIT_FOR = _verb("wait waits waited waiting", conjugate("esperar"), "for")
LOOK_FOR = _verb("look looks looked looking", conjugate("buscar", past="busqué"), "for")
PLAY_MUSIC = _verb("play plays played playing", conjugate("tocar", past="toqué"))
PLAY_GAME = _verb(
    "play plays played playing", conjugate("jugar", present="juego juegas juega jugamos juegan", past="jugué")
)
LIVE = _verb("live lives lived living", conjugate("vivir"))
WORK = _verb("work works worked working", conjugate("trabajar"))
SLEEP = _verb(
    "sleep sleeps slept sleeping",
    conjugate(
        "dormir",
        present="duermo duermes duerme dormimos duermen",
        past="dormí dormiste durmió dormimos durmieron",
        gerund="durmiendo",
    ),
)
RUN = _verb("run runs ran running", conjugate("correr"))
SWIM = _verb("swim swims swam swimming", conjugate("nadar"))
ARRIVE = _verb("arrive arrives arrived arriving", conjugate("llegar", past="llegué"))
KNOW_BY_MEETING = _verb(
    "know knows knew knowing",
    conjugate("conocer", present="conozco", past="conocía conocías conocía conocíamos conocían"),
)
KNOW_AS_FACT = _verb(
    "know knows knew knowing", conjugate("saber", present="sé", past="sabía sabías sabía sabíamos sabían")
)
HAVE = _verb(
    "have has had having",
    conjugate("tener", present="tengo tienes tiene tenemos tienen", past="tenía tenías tenía teníamos tenían"),
)
WANT = _verb(
    "want wants wanted wanting",
    conjugate(
        "querer", present="quiero quieres quiere queremos quieren", past="quería querías quería queríamos querían"
    ),
)
SAY = _verb(
    "say says said saying",
    conjugate(
        "decir",
        present="digo dices dice decimos dicen",
        past="dije dijiste dijo dijimos dijeron",
        gerund="diciendo",
    ),
)
THINK = _verb(
    "think thinks thought thinking", conjugate("creer", past="creí creíste creyó creímos creyeron", gerund="creyendo")
)

SER = conjugate("ser", present="soy eres es somos son", past="era eras era éramos eran")  # past: the imperfect
ESTAR = conjugate("estar", present="estoy estás está estamos están", past="estaba estabas estaba estábamos estaban")
TENER = HAVE.spanish
IR = conjugate("ir", present="voy vas va vamos van", past="fui fuiste fue fuimos fueron", gerund="yendo")
PODER = conjugate(
    "poder",
    present="puedo puedes puede podemos pueden",
    past="podía podías podía podíamos podían",
    gerund="pudiendo",
)

MONTHS = {
    "January": "enero",
    "February": "febrero",
    "March": "marzo",
    "April": "abril",
    "May": "mayo",
    "June": "junio",
    "July": "julio",
    "August": "agosto",
    "September": "septiembre",
    "October": "octubre",
    "November": "noviembre",
    "December": "diciembre",
}
DAYS = {
    "Monday": "lunes",
    "Tuesday": "martes",
    "Wednesday": "miércoles",
    "Thursday": "jueves",
    "Friday": "viernes",
    "Saturday": "sábado",
    "Sunday": "domingo",
}
