package rule

import (
	"slices"
	"time"

	"github.com/rickar/cal/v2"
	"github.com/rickar/cal/v2/ar"
	"github.com/rickar/cal/v2/ch"
)

// correction changes the list of a country or a region, where the library is behind the law.
type correction struct {
	of          string // DE-MV
	law         string
	read        string // a page that tells it
	add, remove days
}

// corrections has what is known to be wrong in the lists of the library, which are of April 2023.
var corrections = []correction{
	{
		of: "DE-MV", law: "Feiertagsgesetz Mecklenburg-Vorpommern, section 2",
		read: "https://www.nord24.de/der-norden/mecklenburg-vorpommern-macht-frauentag-zum-feiertag-80796.html",
		add:  days{fixed("Internationaler Frauentag", time.March, 8, 2023)},
	},
	{
		of: "DE-BE", law: "Gesetz über die Sonn- und Feiertage (Berlin), section 1",
		read: "https://web.de/magazine/wissen/geschichte/berlin-2025-zusaetzlichen-feiertag-40653826",
		add: days{
			dates("80. Jahrestag der Befreiung", "2025-05-08"),
			dates("75. Jahrestag des 17. Juni 1953", "2028-06-17"),
		},
	},
	{
		of: "PL", law: "Ustawa z dnia 6 grudnia 2024 r. o zmianie ustawy o dniach wolnych od pracy",
		read: "https://tvn24.pl/biznes/dla-pracownika/wigilia-piec-dni-wolnych-z-rzedu-bez-urlopu-zmiana-przepisow-st8779528",
		add:  days{fixed("Wigilia Bożego Narodzenia", time.December, 24, 2025)},
	},
	{
		of: "RO", law: "Legea nr. 52/2023",
		read: "https://www.romania-insider.com/january-two-more-legal-holidays-romania",
		add: days{
			fixed("Botezul Domnului", time.January, 6, 2024),
			fixed("Soborul Sfântului Ioan Botezătorul", time.January, 7, 2024),
		},
	},
	{
		of: "BR", law: "Lei nº 14.759/2023",
		read: "https://tmc.com.br/brasil/dia-20-de-novembro-e-feriado-lei-de-2023-resolveu-impasse-sobre-consciencia-negra",
		add:  days{fixed("Dia Nacional de Zumbi e da Consciência Negra", time.November, 20, 2024)},
	},
	{
		of: "NZ", law: "Te Kāhui o Matariki Public Holiday Act 2022, schedule 1",
		read: "https://www.scoop.co.nz/stories/PA2107/S00025/matariki-holiday-dates-for-next-thirty-years-announced.htm",
		add:  days{dates("Matariki", matariki...)},
	},
	{
		of: "AR", law: "Ley 27.399",
		read: "http://www.laautenticadefensa.net/144289",
		remove: days{
			ar.EasternsDay, ar.BelgranoDay, ar.GuemesDay, ar.SanMartinDay, ar.DiversityDay, ar.SovereigntyDay,
		},
		add: days{
			easter("Viernes Santo", -2), fixed(ar.BelgranoDay.Name, time.June, 20, 0), movable(ar.GuemesDay),
			movable(ar.SanMartinDay), movable(ar.DiversityDay), movable(ar.SovereigntyDay),
		},
	},
	{
		of: "CH-GE", law: "Loi sur les jours fériés (J 1 45), art. 1",
		read:   "https://www.cgas.ch/SPIP/spip.php?article1286",
		remove: days{ch.Fronleichnam},
		add:    days{fixed("Restauration de la République", time.December, 31, 0)},
	},
	{
		of: "CH-GE", law: "Loi sur les jours fériés (J 1 45), art. 1",
		read: "https://www.radiolac.ch/etiquettes/ferie/",
		add:  days{afterSunday("Jeûne genevois", 1, 4)},
	},
	{
		of: "CH-VD", law: "Loi sur l'emploi (LEmp), art. 47",
		read: "https://bonasavoir.ch/article/article-detail/pourquoi-nai-je-pas-conge",
		add:  days{afterSunday("Lundi du Jeûne fédéral", 3, 1)},
	},
	{
		of: "CH-GL", law: "Gesetz über die öffentlichen Ruhetage",
		read: "https://www.stm-ag.ch/naefelser-fahrt/",
		add:  days{fahrt},
	},
	{
		of: "CH-OW", law: "Ruhetagsgesetz, art. 2",
		read: "https://lexaris.de/book/version/documentflat/head/282245",
		add:  days{fixed("Bruderklausenfest", time.September, 25, 0)},
	},
	{
		of: "CH-NE", law: "Loi sur le dimanche et les jours fériés",
		read: "https://feiertagskalender.ch/index.php?geo=1523&klasse=3&jahr=2020&hl=fr",
		// Two communes of the canton keep it.
		remove: days{ch.Fronleichnam},
		add:    days{fixed("Instauration de la République", time.March, 1, 0)},
	},
	{
		of: "CH-JU", law: "Loi sur les jours fériés officiels et le repos dominical du 31 août 2022, art. 3",
		read: "https://lexaris.eu/book/version/documentflat/head/266593",
		add:  days{fixed("Commémoration du plébiscite jurassien", time.June, 23, 0)},
	},
}

// days are holidays of one law.
type days = []*cal.Holiday

// corrected returns the list of a country or a region after its corrections.
func corrected(of string, list []*cal.Holiday) (all []lawful) {
	for _, h := range list {
		all = append(all, lawful{h, "list of " + of, ""})
	}
	for _, c := range corrections {
		if c.of != of {
			continue
		}
		all = slices.DeleteFunc(all, func(h lawful) bool { return slices.Contains(c.remove, h.Holiday) })
		for _, h := range c.add {
			all = append(all, lawful{h, c.law, c.read})
		}
	}
	return all
}

// fixed returns a holiday on a day of each year from a first one on.
func fixed(name string, month time.Month, d, first int) *cal.Holiday {
	return &cal.Holiday{Name: name, Month: month, Day: d, StartYear: first, Func: cal.CalcDayOfMonth}
}

// easter returns a holiday some days after Easter Sunday.
func easter(name string, days int) *cal.Holiday {
	return &cal.Holiday{Name: name, Offset: days, Func: cal.CalcEasterOffset}
}

// afterSunday returns a holiday some days after the nth Sunday of September.
func afterSunday(name string, n, days int) *cal.Holiday {
	return &cal.Holiday{
		Name: name, Month: time.September, Weekday: time.Sunday, Offset: n, CalcOffset: days, Func: cal.CalcWeekdayOffset,
	}
}

// dates returns a holiday on the dates of single years.
func dates(name string, days ...string) *cal.Holiday {
	return &cal.Holiday{Name: name, Func: func(_ *cal.Holiday, year int) time.Time {
		for _, text := range days {
			if at, err := time.Parse(time.DateOnly, text); err == nil && at.Year() == year {
				return at
			}
		}
		return time.Time{}
	}}
}

// movable returns a holiday of Argentina that moves to the Monday before it from a Tuesday or Wednesday, and
// to the next Monday from a Thursday or Friday.
func movable(h *cal.Holiday) *cal.Holiday {
	return &cal.Holiday{Name: h.Name, Month: h.Month, Day: h.Day, Func: func(h *cal.Holiday, year int) time.Time {
		at := cal.CalcDayOfMonth(h, year)
		return at.AddDate(0, 0, map[time.Weekday]int{
			time.Tuesday: -1, time.Wednesday: -2, time.Thursday: 4, time.Friday: 3,
		}[at.Weekday()])
	}}
}

// fahrt is on the first Thursday of April, or a week later if that is in Holy Week.
var fahrt = &cal.Holiday{Name: "Näfelser Fahrt", Func: func(_ *cal.Holiday, year int) time.Time {
	at := cal.DayStart(cal.WeekdayN(year, time.April, time.Thursday, 1))
	if good, _ := ch.Karfreitag.Calc(year); at.Equal(good.AddDate(0, 0, -1)) {
		return at.AddDate(0, 0, 7)
	}
	return at
}}

// matariki has the dates of the act, until it ends.
var matariki = []string{
	"2022-06-24", "2023-07-14", "2024-06-28", "2025-06-20", "2026-07-10", "2027-06-25", "2028-07-14", "2029-07-06",
	"2030-06-21", "2031-07-11", "2032-07-02", "2033-06-24", "2034-07-07", "2035-06-29", "2036-07-18", "2037-07-10",
	"2038-06-25", "2039-07-15", "2040-07-06", "2041-07-19", "2042-07-11", "2043-07-03", "2044-06-24", "2045-07-07",
	"2046-06-29", "2047-07-19", "2048-07-03", "2049-06-25", "2050-07-15", "2051-06-30", "2052-06-21",
}
