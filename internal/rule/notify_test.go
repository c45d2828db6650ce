package rule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/rule"
)

// messages returns the messages that rules have published: the receiver, and the text with the recipient.
func (s *shop) messages() (list []string) {
	s.t.Helper()
	for _, e := range s.publisher.Events() {
		receiver, is := strings.CutPrefix(e.Type, message.Prefix)
		if !is {
			continue
		}
		var m message.Message
		if err := json.Unmarshal(e.Data, &m); err != nil {
			s.t.Fatal(err)
		}
		at := ""
		if m.SendAt != nil {
			at = " at " + m.SendAt.Format(time.RFC3339)
		}
		list = append(list, fmt.Sprintf("%s: %s <%s> %t%s", receiver, m.Text, m.To, m.Over, at))
	}
	return list
}

func notify(receiver, text, to, digest string) rule.Notify {
	return rule.Notify{Receiver: receiver, Text: text, To: to, Digest: digest}
}

func TestAStepSendsAMessageWithTheValuesOfItsRow(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(steps(
		rule.Step{Name: "first", After: rule.Delay{Days: 4}, Event: "late", Notify: notify("ops", "", "", "")},
		rule.Step{Name: "final", After: rule.Delay{Days: 7}, Notify: notify("mail", "Order {{.key}} of {{.payload.customer}} waits since {{.since}}",
			"{{.payload.customer}}@example.com", "")},
	), func(a *rule.Applied) { a.Rule.Timezone = "Europe/Berlin" }))
	s.order(1)
	s.waits("1", day(4))
	s.run(day(4))
	s.run(day(7).Add(-time.Hour)) // clocks may differ by an hour
	s.run(day(7))
	want := []string{
		"ops: order.unshipped: order 1 has waited since 2030-03-01 13:00 CET (step first, after 4d)\ncustomer: ada <> false",
		"mail: Order 1 of ada waits since 2030-03-01 13:00 CET <ada@example.com> false",
	}
	if diff := cmp.Diff(want, s.messages()); diff != "" {
		t.Error(diff)
	}
	ids := map[string]bool{}
	for _, e := range s.publisher.Events() {
		if ids[e.ID] || e.Subject != "order/1" {
			t.Errorf("%+v", e)
		}
		ids[e.ID] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d events, want those of two messages and of the first step", len(ids))
	}
}

func TestAMessageTellsThatItIsOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		between func(s *shop) // the alarm and the end
		key     string        // then
		since   string
	}{
		"the row stays": {func(*shop) {}, "1", "2030-03-01 12:00 UTC"},
		"the row gets another key": {func(s *shop) {
			s.exec("update shop.orders set id = 5")
			s.exec("select prescient.rule_rename('order.unshipped', 'order', '1', '5', null)") // as the trigger does
		}, "5", "2030-03-01 12:00 UTC"},
		"the rule gets another timezone": {func(s *shop) { s.overIn("Europe/Berlin") }, "1", "2030-03-01 12:00 CET"},
		"another step fires with another key and timezone": {func(s *shop) {
			s.overIn("Europe/Berlin")
			s.exec("update shop.orders set id = 5")
			s.exec("select prescient.rule_rename('order.unshipped', 'order', '1', '5', null)")
			s.run(day(4.75))
		}, "5", "2030-03-01 12:00 CET"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.exec("alter table shop.orders add local_at timestamp")
			s.overIn("UTC")
			s.order(1)
			s.exec("update shop.orders set local_at = $1::timestamptz at time zone 'UTC'", day0)
			s.waits("1", day(4))
			s.run(day(4))
			test.between(s)
			s.exec("update shop.orders set shipped_at = $1", day(4.75))
			s.exec("delete from prescient.future_job")
			s.waits(test.key, day(5)) // as the trigger does
			s.run(day(5))
			got, last := s.messages(), "ops: order.unshipped: order "+test.key+", which had waited since "+test.since+", is over: done, at 2030-03-06 "
			if len(got) < 2 || got[0] != "ops: late <> false" || !strings.HasPrefix(got[len(got)-1], last) {
				t.Errorf("%q", got)
			}
			for _, e := range s.publisher.Events() {
				var m, first message.Message
				if err := errors.Join(json.Unmarshal(e.Data, &m), json.Unmarshal(s.publisher.Events()[0].Data, &first)); err != nil {
					t.Fatal(err)
				}
				if m.About == "" || m.About != first.About || e.Subject != "order/1" { // it must not overtake the alarm
					t.Errorf("message %q is about %s and %s, want %s", m.Text, m.About, e.Subject, first.About)
				}
			}
		})
	}
}

// overIn applies a rule with two steps and with messages, by the clocks of a zone.
func (s *shop) overIn(zone string) {
	s.t.Helper()
	s.apply(unshipped(steps(
		rule.Step{Name: "first", After: rule.Delay{Days: 4}, Notify: notify("ops", "late", "", "")},
		rule.Step{Name: "second", After: rule.Delay{Duration: 114 * time.Hour}, Notify: notify("ops", "later", "", "")},
	), func(a *rule.Applied) {
		a.Rule.Since, a.Facts.Since = rule.Texts{"local_at"}, []expr.Expr{{SQL: "local_at", Type: expr.Local}}
		a.Reads, a.Rule.Timezone, a.Facts.Zone = append(a.Reads, "local_at"), zone, zone
		a.Rule.Recovered.Notify = notify("ops", "", "", "")
	}))
	s.exec("update prescient.rule set recovers_at = '2000-01-01'")
}

func TestADigestIsSentAtItsTime(t *testing.T) {
	t.Parallel()
	for digest, want := range map[string]string{
		"slot": "2030-03-05T12:15:00Z", "1h": "2030-03-05T13:00:00Z", "09:00": "2030-03-06T08:00:00Z", "13:30": "2030-03-05T12:30:00Z",
	} {
		t.Run(digest, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.apply(unshipped(steps(rule.Step{Name: "first", After: rule.Delay{Days: 4}, Notify: notify("ops", "late", "", digest)}),
				func(a *rule.Applied) { a.Rule.Timezone = "Europe/Berlin" }))
			s.order(1)
			s.waits("1", day(4))
			s.run(day(4))
			if diff := cmp.Diff([]string{"ops: late <> false at " + want}, s.messages()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A text that fails for a row must not fail its check.
func TestATextThatCannotBeMadeIsSentAsFarAsItGoes(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(steps(rule.Step{Name: "first", After: rule.Delay{Days: 4}, Notify: notify("ops", "late {{.key}}: {{slice .key 5}}", "", "")})))
	s.order(1)
	s.waits("1", day(4))
	s.run(day(4))
	if got := s.messages(); len(got) != 1 || !strings.HasPrefix(got[0], "ops: late 1:  (text: ") {
		t.Errorf("%q", got)
	}
}

func TestPlanChecksTheTextOfAMessage(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]string{
		`{after: 2d, notify: ops}`: "",
		`{after: 2d, notify: ops, text: "{{.key}} {{.payload.customer}}"}`:       "",
		`{after: 2d, notify: ops, text: "{{range .payload}}{{.}}{{end}}"}`:       "",
		`{after: 2d, notify: ops, digest: "09:00", to: "{{.payload.customer}}"}`: "",
		`{after: 2d, event: a, notify: ops, digest: 1h}`:                         "",
		`{after: 2d, notify: ops, text: "{{.payload.email}}"}`:                   "steps[1].text: names the column email, which payload does not list: write payload: [customer, email]",
		`{after: 2d, notify: ops, to: "{{if .payload.mail}}x{{end}}"}`:           "steps[1].to: names the column mail",
		`{after: 2d, notify: ops, text: "{{.customer}}"}`:                        "steps[1].text: there is no .customer: did you mean .payload.customer?",
		`{after: 2d, notify: ops, text: "{{.custmer}}"}`:                         "steps[1].text: there is no .custmer: did you mean .payload.customer?",
		`{after: 2d, notify: ops, text: "{{.kye}}"}`:                             "steps[1].text: there is no .kye: did you mean .key?",
		`{after: 2d, notify: ops, text: "{{.pyload.customer}}"}`:                 "steps[1].text: there is no .pyload: did you mean .payload?",
		`{after: 2d, notify: ops, text: "{{.region}}"}`:                          "steps[1].text: there is no .region: want one of .rule, .step",
		`{after: 2d, notify: ops, text: "{{.payload.custmer}}"}`:                 "steps[1].text: names the column custmer, which payload does not list: did you mean customer?",
		`{after: 2d, notify: ops, text: "{{$x := 1}}{{$x.kye}}"}`:                "",
		`{after: 2d, notify: ops, text: "{{$.kye}}"}`:                            "steps[1].text: there is no .kye: did you mean .key?",
		`{after: 2d, notify: ops, text: "{{range .payload}}{{$.kye}}{{end}}"}`:   "steps[1].text: there is no .kye: did you mean .key?",
		`{after: 2d, notify: ops, text: "{{.key"}`:                               "steps[1].text: text:1: unclosed action",
		`{after: 2d, notify: Ops Team}`:                                          "steps[1].notify: \"Ops Team\": want the name of a receiver",
		`{after: 2d, notify: ops, html: "<p>{{.payload.customer}}</p>"}`:         "",
		`{after: 2d, html: "<p>{{.key}}</p>", event: a}`:                         "steps[1].html: needs notify: and the name of a receiver",
		`{after: 2d, notify: ops, html: "<p>{{.payload.mail}}</p>"}`:             "steps[1].html: names the column mail, which payload does not list",
		`{after: 2d, notify: ops, html: "<a href={{.key}}"}`:                     "steps[1].html: ",
		`{after: 2d, notify: ops, digest: 7h}`:                                   "steps[1].digest: \"7h\": want slot, a duration",
		`{after: 2d, notify: ops, digest: "25:00"}`:                              "steps[1].digest: \"25:00\": want a time such as 09:00",
		`{after: 2d, event: a, text: hello}`:                                     "steps[1].text: needs notify: and the name of a receiver",
		`{after: 2d}`:                                                            "must have at least one of event, sql, job and notify",
		`{after: 2d, notify: ops}, {after: 3d, notify: ops}`:                     `steps[2].name: must be set, because it would be "notify ops"`,
	} {
		text := "rules: [{name: a, table: shop.orders, key: id, since: placed_at, done: shipped_at, payload: [customer], steps: [" + step + "]}]"
		_, err := rule.Parse(strings.NewReader(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", step, err, want)
		}
	}
	for over, want := range map[string]string{
		"{notify: ops}": "", "{event: a, notify: ops, text: over}": "", "{}": "", "{event: a, text: over}": "recovered: text: needs notify:", "{text: }": "want the type of an event, a job or a receiver",
	} {
		text := "rules: [{name: a, table: shop.orders, key: id, since: placed_at, done: shipped_at, steps: [{after: 2d, event: a}], recovered: " + over + "}]"
		_, err := rule.Parse(strings.NewReader(text))
		if over != "{}" && (want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want))) {
			t.Errorf("%s: %v, want %s", over, err, want)
		}
	}
}

func TestAMessageHasTheEscapedHTMLOfItsRow(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	n := notify("mail", "late", "", "")
	n.HTML = "<p>Order {{.key}} of {{.payload.customer}}, {{printf \"<b>%s</b>\" .key}}</p>"
	s.apply(unshipped(steps(rule.Step{Name: "first", After: rule.Delay{Days: 4}, Event: "late", Notify: n})))
	s.order(1)
	s.waits("1", day(4))
	s.run(day(4))
	var m message.Message
	if err := json.Unmarshal(s.publisher.Events()[1].Data, &m); err != nil {
		t.Fatal(err)
	}
	if want := "<p>Order 1 of ada, &lt;b&gt;1&lt;/b&gt;</p>"; m.HTML != want || m.Text != "late" {
		t.Errorf("%q, %q, want %q", m.Text, m.HTML, want)
	}
}
