package rule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rickar/cal/v2"
	"github.com/rickar/cal/v2/ar"
	"github.com/rickar/cal/v2/at"
	"github.com/rickar/cal/v2/au"
	"github.com/rickar/cal/v2/be"
	"github.com/rickar/cal/v2/bg"
	"github.com/rickar/cal/v2/br"
	"github.com/rickar/cal/v2/ca"
	"github.com/rickar/cal/v2/ch"
	"github.com/rickar/cal/v2/cz"
	"github.com/rickar/cal/v2/de"
	"github.com/rickar/cal/v2/dk"
	"github.com/rickar/cal/v2/es"
	"github.com/rickar/cal/v2/fr"
	"github.com/rickar/cal/v2/gb"
	"github.com/rickar/cal/v2/gr"
	"github.com/rickar/cal/v2/hr"
	"github.com/rickar/cal/v2/ie"
	"github.com/rickar/cal/v2/it"
	"github.com/rickar/cal/v2/jp"
	"github.com/rickar/cal/v2/lt"
	"github.com/rickar/cal/v2/lv"
	"github.com/rickar/cal/v2/mw"
	"github.com/rickar/cal/v2/nc"
	"github.com/rickar/cal/v2/nl"
	"github.com/rickar/cal/v2/no"
	"github.com/rickar/cal/v2/nz"
	"github.com/rickar/cal/v2/pl"
	"github.com/rickar/cal/v2/ro"
	"github.com/rickar/cal/v2/ru"
	"github.com/rickar/cal/v2/se"
	"github.com/rickar/cal/v2/si"
	"github.com/rickar/cal/v2/sk"
	"github.com/rickar/cal/v2/ua"
	"github.com/rickar/cal/v2/us"
	"github.com/rickar/cal/v2/za"
)

// national has the public holidays of countries by their ISO 3166-1 codes.
var national = map[string][]*cal.Holiday{
	"AR": ar.Holidays, "AT": at.Holidays, "BE": be.Holidays, "BG": bg.Holidays, "BR": br.Holidays, "CA": ca.Holidays,
	"CZ": cz.Holidays, "DE": de.Holidays, "DK": dk.Holidays, "ES": es.Holidays, "FR": fr.Holidays, "GB": gb.Holidays,
	"GR": gr.Holidays, "HR": hr.Holidays, "IE": ie.Holidays, "IT": it.Holidays, "JP": jp.Holidays, "LT": lt.Holidays,
	"LV": lv.Holidays, "MW": mw.Holidays, "NC": nc.Holidays, "NL": nl.Holidays, "NO": no.Holidays, "NZ": nz.Holidays,
	"PL": pl.Holidays, "RO": ro.Holidays, "RU": ru.Holidays, "SE": se.Holidays, "SI": si.Holidays, "SK": sk.Holidays,
	"UA": ua.Holidays, "US": us.Holidays, "ZA": za.Holidays,
}

// regional has the public holidays of regions, with those of their country. The keys are the code of the country, and
// the second part of the ISO 3166-2 code of the region.
var regional = map[string]map[string][]*cal.Holiday{
	"AU": {
		"ACT": au.HolidaysACT, "NSW": au.HolidaysNSW, "NT": au.HolidaysNT, "QLD": au.HolidaysQLD,
		"SA": au.HolidaysSA, "TAS": au.HolidaysTAS, "VIC": au.HolidaysVIC, "WA": au.HolidaysWA,
	},
	"CH": {
		"AG": ch.HolidaysAG, "AI": ch.HolidaysAI, "AR": ch.HolidaysAR, "BE": ch.HolidaysBE,
		"BL": ch.HolidaysBL, "BS": ch.HolidaysBS, "FR": ch.HolidaysFR, "GE": ch.HolidaysGE,
		"GL": ch.HolidaysGL, "GR": ch.HolidaysGR, "JU": ch.HolidaysJU, "LU": ch.HolidaysLU,
		"NE": ch.HolidaysNE, "NW": ch.HolidaysNW, "OW": ch.HolidaysOW, "SG": ch.HolidaysSG,
		"SH": ch.HolidaysSH, "SO": ch.HolidaysSO, "SZ": ch.HolidaysSZ, "TG": ch.HolidaysTG,
		"TI": ch.HolidaysTI, "UR": ch.HolidaysUR, "VD": ch.HolidaysVD, "VS": ch.HolidaysVS,
		"ZG": ch.HolidaysZG, "ZH": ch.HolidaysZH,
	},
	"DE": {
		"BB": de.HolidaysBB, "BE": de.HolidaysBE, "BW": de.HolidaysBW, "BY": de.HolidaysBY,
		"HB": de.HolidaysHB, "HE": de.HolidaysHE, "HH": de.HolidaysHH, "MV": de.HolidaysMV,
		"NI": de.HolidaysNI, "NW": de.HolidaysNW, "RP": de.HolidaysRP, "SH": de.HolidaysSH,
		"SL": de.HolidaysSL, "SN": de.HolidaysSN, "ST": de.HolidaysST, "TH": de.HolidaysTH,
	},
}

// lawful is a public holiday with its source.
type lawful struct {
	*cal.Holiday
	source, page string
}

// publicHolidays returns the public holidays of a country, or of a region with those of its country.
func publicHolidays(code, region string) ([]lawful, error) {
	if code == "" {
		if region != "" {
			return nil, fmt.Errorf("region: %q has no country: write country beside it", region)
		}
		return nil, nil
	}
	list, common := national[code]
	regions, divided := regional[code]
	names := strings.Join(slices.Sorted(maps.Keys(regions)), ", ")
	switch ofRegion, known := regions[region]; {
	case !common && !divided:
		codes := slices.AppendSeq(slices.Collect(maps.Keys(national)), maps.Keys(regional))
		slices.Sort(codes)
		return nil, fmt.Errorf("country: the holidays of %q are not known. Known are %s. List the days in holidays instead",
			code, strings.Join(slices.Compact(codes), ", "))
	case region == "" && !common:
		return nil, fmt.Errorf("region: must be set, because %s has no common list of holidays: one of %s", code, names)
	case region == "":
	case !divided:
		return nil, fmt.Errorf("region: the regions of %s are not known. Leave it out, and list their days in holidays", code)
	case !known:
		return nil, fmt.Errorf("region: %q is not a region of %s: want one of %s", region, code, names)
	default:
		list = ofRegion
	}
	name := code
	if region != "" {
		name += "-" + region
	}
	return corrected(name, list), nil
}

// Holiday is a day of a calendar on which work ends early, or does not begin.
type Holiday struct {
	Date string `json:"date"` // 2026-12-24
	// Name is the name of the holiday. Empty: it has none.
	Name string `json:"name"`
	// Source is where the calendar has it from: a country's list, a law, a file, or the field holidays.
	Source string `json:"source"`
	// Page is a page that tells the law. Empty: Source is not a law.
	Page string `json:"page,omitempty"`
	// From is the time of day at which work ends. Empty: no work begins.
	From string `json:"from"`
	// Works tells that the field workdays takes the day off the holidays.
	Works bool `json:"works"`
}

// HolidaysOf returns the holidays of a calendar in a year, by their dates. A day that has several sources is
// there for each of them, also a day of the week without working hours. Returns an error that names the
// mistake of the calendar.
func (c Calendar) HolidaysOf(year int) (list []Holiday, err error) {
	compiled, err := c.compile()
	if err != nil {
		return nil, err
	}
	for on, closed := range compiled.year(year) {
		date := time.Date(year, on.month, on.day, 0, 0, 0, 0, time.UTC)
		for _, why := range closed.why {
			h := Holiday{
				Date: date.Format(time.DateOnly), Name: why.name, Source: why.source, Page: why.page, Works: closed.works,
			}
			if why.from > 0 {
				h.From = time.Time{}.Add(why.from).Format("15:04")
			}
			if date.Month() == on.month { // not February 29 of another year
				list = append(list, h)
			}
		}
	}
	slices.SortFunc(list, func(a, b Holiday) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}
