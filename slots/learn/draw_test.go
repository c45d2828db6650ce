package learn_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

const lastDay = int(final / day)

// line is what a picture shows of the orders: a value for each day of their age.
type line struct {
	name   string
	class  string
	values []float64
}

// openBy is the part of orders that is not shipped, by age.
func openBy(name, class string, orders []order) line {
	l := line{name: name, class: class}
	for d := range lastDay + 1 {
		n := 0
		for _, o := range orders {
			if o.shipped.IsZero() || o.shipped.Sub(o.placed) > time.Duration(d)*day {
				n++
			}
		}
		l.values = append(l.values, float64(n)/float64(len(orders)))
	}
	return l
}

// checksBy is how many checks an order has had by an age, on average.
func checksBy(name, class string, orders []order, w *watch) line {
	l := line{name: name, class: class}
	for d := range lastDay + 1 {
		n := 0
		for _, o := range orders {
			for _, at := range w.checks[o.id] {
				if at.Sub(o.placed) <= time.Duration(d)*day {
					n++
				}
			}
		}
		l.values = append(l.values, float64(n)/float64(len(orders)))
	}
	return l
}

// Colours that can be told apart on light and on dark.
const style = `<style>
text { font: 13px sans-serif; fill: #333 }
.grid { stroke: #8886; fill: none }
.a { stroke: #d9730d } .b { stroke: #2a7de1 }
.a, .b { stroke-width: 2.5; fill: none }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .a { stroke: #ff9a3d } .b { stroke: #6db3ff } }
</style>
`

// draw writes docs/learning.svg.
func draw(t *testing.T, before, later []order, daily, judged *watch) {
	t.Helper()
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 300" role="img" aria-labelledby="title desc">
<title id="title">Real orders: what is learned, and what it saves</title>
<desc id="desc">Left: the part of the orders that is open by age, of those that were learned from and of those that were judged. ` +
		`Right: how many checks an order has had by that age.</desc>
` + style)
	panel(&b, 50, "orders that are open, by age in days", 1, "100 %", openBy("learned from", "a", before), openBy("judged on", "b", later))
	panel(&b, 460, "checks of an order, by age in days", 12, "12", checksBy("once a day", "a", later, daily), checksBy("learned", "b", later, judged))
	b.WriteString("</svg>\n")
	if err := os.WriteFile("../../docs/learning.svg", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func panel(b *strings.Builder, left float64, title string, top float64, highest string, lines ...line) {
	const width, height, above = 320.0, 200.0, 50.0
	x := func(d int) float64 { return left + width*float64(d)/float64(lastDay) }
	y := func(v float64) float64 { return above + height*(1-v/top) }
	label := func(x, y float64, anchor, text string) {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text)
	}
	label(left, 24, "start", title)
	label(left-6, y(top)+4, "end", highest)
	label(left-6, y(0)+4, "end", "0")
	for d := 0; d <= lastDay; d += 7 {
		fmt.Fprintf(b, "<path class=\"grid\" d=\"M%.1f %.0fV%.0f\"/>\n", x(d), y(top), y(0))
		label(x(d), y(0)+18, "middle", fmt.Sprint(d))
	}
	fmt.Fprintf(b, "<path class=\"grid\" d=\"M%.1f %.0fH%.1f\"/>\n", left, y(0), left+width)
	for i, l := range lines {
		points := []string{}
		for d, v := range l.values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(d), y(v)))
		}
		fmt.Fprintf(b, "<polyline class=\"%s\" points=\"%s\"/>\n", l.class, strings.Join(points, " "))
		at := left + float64(i)*150
		fmt.Fprintf(b, "<path class=\"%s\" d=\"M%.0f 286h24\"/>\n", l.class, at)
		label(at+30, 290, "start", l.name)
	}
}
