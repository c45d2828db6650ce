package rule

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/slots/grid"
)

// Notify is a message to people. The zero value sends none.
type Notify struct {
	// Receiver is the name of a receiver of the settings. Empty: there is no message.
	Receiver string `json:"notify,omitempty"`
	// Text is the message, as a template of package text/template. Its values are those of the data of an event, such as
	// {{.key}} and {{.payload.customer}}. Defaults to a sentence with all of them.
	Text string `json:"text,omitempty"`
	// HTML is a template of package html/template with the same values, for a part of a mail beside the text. Empty: a
	// mail has the text alone.
	HTML string `json:"html,omitempty"`
	// To is a template of the recipient. Empty: the receiver says who gets the message.
	To string `json:"to,omitempty"`
	// Digest is when the message is sent together with others to the same recipient: "slot", a duration such as 1h, or a
	// time of day such as 09:00. Empty: it is sent at once, alone.
	Digest string `json:"digest,omitempty"`
}

// notifyFields are the fields of a Notify in a file.
var notifyFields = []string{"notify", "text", "html", "to", "digest"}

// texts returns the fields by their names in a file.
func (n *Notify) texts() map[string]*string {
	return map[string]*string{"notify": &n.Receiver, "text": &n.Text, "html": &n.HTML, "to": &n.To, "digest": &n.Digest}
}

// check returns what is wrong, by field. payload has the columns that go with events.
func (n Notify) check(payload []string) map[string]string {
	problems := map[string]string{}
	if n.Receiver == "" {
		for name, text := range n.texts() {
			if *text != "" {
				problems[name] = "needs notify: and the name of a receiver of the settings, such as ops"
			}
		}
		return problems
	}
	if problem := message.CheckReceiver(n.Receiver); problem != "" {
		problems["notify"] = problem
	}
	for name, text := range map[string]string{"text": n.Text, "html": n.HTML, "to": n.To} {
		if problem := checkTemplate(name, text, payload); problem != "" {
			problems[name] = problem
		}
	}
	if problem := checkHTML(n.HTML); problem != "" && problems["html"] == "" {
		problems["html"] = problem
	}
	if _, err := parseDigest(n.Digest); err != nil {
		problems["digest"] = err.Error()
	}
	return problems
}

// messageValues are the names that templates know.
var messageValues = []string{"rule", "step", "entity", "key", "since", "when", "number", "at", "payload"}

// checkTemplate returns what is wrong with a template. Empty: nothing.
func checkTemplate(name, text string, payload []string) string {
	if len(text) > message.MaxText {
		return fmt.Sprintf("must be at most %d bytes", message.MaxText)
	}
	t, err := template.New(name).Parse(text)
	if err != nil {
		return strings.TrimPrefix(err.Error(), "template: ")
	}
	if t.Tree == nil {
		return ""
	}
	for _, field := range fieldsOf(t.Root) {
		if field[0] == root {
			field = field[1:]
		}
		if problem := checkField(field, payload); problem != "" {
			return problem
		}
	}
	return ""
}

// checkField returns what is wrong with a field of the value of a template. Empty: nothing.
func checkField(field, payload []string) string {
	columns := make([]string, len(payload))
	for i, column := range payload {
		columns[i] = unquoted(column)
	}
	switch {
	case !slices.Contains(messageValues, field[0]):
		meant := slices.Concat(dotted(".", spoken.Nearest(field[0], messageValues)),
			dotted(".payload.", spoken.Nearest(field[0], columns)))
		if len(meant) > 0 {
			return "there is no ." + field[0] + spoken.DidYouMean(meant)
		}
		return fmt.Sprintf("there is no .%s: want one of %s. A column is written .payload.%[1]s, and listed in payload",
			field[0], strings.Join(dotted(".", messageValues), ", "))
	case field[0] == "payload" && len(field) > 1 && !slices.Contains(columns, field[1]):
		return fmt.Sprintf("names the column %s, which payload does not list%s", field[1],
			cmp.Or(spoken.Meant(field[1], columns),
				": write payload: ["+strings.Join(append(slices.Clone(payload), field[1]), ", ")+"]"))
	}
	return ""
}

// dotted returns names as templates write them.
func dotted(prefix string, names []string) []string {
	list := slices.Clone(names)
	for i := range list {
		list[i] = prefix + list[i]
	}
	return list
}

// checkHTML returns why values cannot be escaped in a template of HTML. Empty: they can.
func checkHTML(text string) string {
	t, err := htmltemplate.New("html").Parse(text)
	if err == nil {
		err = t.Execute(io.Discard, map[string]any{})
	}
	if _, is := errors.AsType[*htmltemplate.Error](err); !is {
		return "" // a template may need the values of a row
	}
	return strings.TrimPrefix(err.Error(), "html/template:")
}

// unquoted returns the name of a column that a file has as SQL.
func unquoted(column string) string {
	if names, err := ParseName(column); err == nil && len(names) == 1 {
		return names[0]
	}
	return column
}

// root is the name of the whole value of a template: {{$.key}} is {{.key}}, also within range and with.
const root = "$"

// fieldsOf returns the fields of the value of a template that its nodes name. Those that begin with root keep it.
// Within range and with, a field without root is of another value.
func fieldsOf(node parse.Node) (list [][]string) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, one := range n.Nodes {
				list = append(list, fieldsOf(one)...)
			}
		}
	case *parse.ActionNode:
		list = fieldsOf(n.Pipe)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, arg := range c.Args {
				list = append(list, fieldsOf(arg)...)
			}
		}
	case *parse.FieldNode:
		list = append(list, n.Ident)
	case *parse.ChainNode:
		list = fieldsOf(n.Node)
	case *parse.IfNode:
		list = slices.Concat(fieldsOf(n.Pipe), fieldsOf(n.List), fieldsOf(n.ElseList))
	case *parse.RangeNode:
		list = slices.Concat(fieldsOf(n.Pipe), ofRoot(fieldsOf(n.List)), fieldsOf(n.ElseList))
	case *parse.WithNode:
		list = slices.Concat(fieldsOf(n.Pipe), ofRoot(fieldsOf(n.List)), fieldsOf(n.ElseList))
	case *parse.VariableNode:
		if n.Ident[0] == root && len(n.Ident) > 1 {
			list = append(list, n.Ident)
		}
	}
	return list
}

// ofRoot returns the fields that begin with root.
func ofRoot(fields [][]string) [][]string {
	return slices.DeleteFunc(fields, func(field []string) bool { return field[0] != root })
}

// digest is when messages are sent together.
type digest struct {
	slot  bool
	every time.Duration // counted from midnight in UTC; 0: at a time of day
	clock time.Duration // from midnight
}

// parseDigest reads Notify.Digest. It returns nil for an empty text.
func parseDigest(text string) (*digest, error) {
	switch {
	case text == "":
		return nil, nil
	case text == "slot":
		return &digest{slot: true}, nil
	case strings.Contains(text, ":"):
		clock, err := parseTimeOfDay(text)
		return &digest{clock: clock}, err
	}
	every, err := duration.Parse(text)
	if err != nil || every < time.Minute || day%every != 0 {
		return nil, fmt.Errorf("%q: want slot, a duration that divides a day, such as 1h, or a time of day, such as 09:00",
			text)
	}
	return &digest{every: every}, nil
}

// after returns the first instant after another one at which messages are sent.
func (d digest) after(at time.Time, g grid.Grid, c *clocks) time.Time {
	switch {
	case d.slot:
		return g.Floor(at).Add(g.Width())
	case d.every > 0:
		return at.Truncate(d.every).Add(d.every)
	}
	today := c.today(at)
	if next := c.instant(today, d.clock); next.After(at) {
		return next
	}
	return c.instant(today.AddDate(0, 0, 1), d.clock)
}

// notifier is a Notify as checks use it. Nil sends nothing.
type notifier struct {
	Notify
	text, to *template.Template
	html     *htmltemplate.Template // nil: none
	digest   *digest
}

// newNotifier returns what sends the messages of a step. The default replaces a text that this version cannot read.
func newNotifier(n Notify, otherwise string) *notifier {
	if n.Receiver == "" {
		return nil
	}
	c := &notifier{Notify: n, text: template.Must(template.New("text").Parse(otherwise))}
	if t, err := template.New("text").Parse(cmp.Or(n.Text, otherwise)); err == nil {
		c.text = t
	}
	if n.HTML != "" {
		c.html, _ = htmltemplate.New("html").Parse(n.HTML)
	}
	c.to, _ = template.New("to").Parse(n.To)
	c.digest, _ = parseDigest(n.Digest)
	return c
}

// The default texts of a step, of Rule.Recovered, and of Rule.Met.
const (
	stepText = "{{.rule}}: {{.entity}} {{.key}} has waited since {{.since}} (step {{.step}}, {{.when}})" +
		"{{range $name, $value := .payload}}\n{{$name}}: {{$value}}{{end}}"
	overText = "{{.rule}}: {{.entity}} {{.key}}, which had waited since {{.since}}, is over: {{.when}}, at {{.at}}" +
		"{{range $name, $value := .payload}}\n{{$name}}: {{$value}}{{end}}"
	metText = "{{.rule}}: {{.entity}} {{.key}}, which had waited since {{.since}}, is done in time, at {{.at}}" +
		"{{range $name, $value := .payload}}\n{{$name}}: {{$value}}{{end}}"
)

// messageData is the data of an event that is a message.
type messageData struct {
	stepData
	message.Message
}

// notify returns the event of a message about a row, or nil.
func (p *page) notify(i int, n *notifier, data stepData, over bool) *event.Event {
	if n == nil {
		return nil
	}
	row := p.rows[i]
	now := row.Slot.Add(row.Lateness)
	clocks := p.clocks(i)
	values := values(data, clocks)
	m := messageData{stepData: data}
	m.Text, m.To, m.Over = message.Execute(n.text, values), strings.TrimSpace(message.Execute(n.to, values)), over
	m.HTML = n.htmlOf(values)
	var subject string
	m.About, subject = p.problem(i, data.Since)
	if m.Text == "" {
		m.Text = fmt.Sprintf("%s: %s %s", data.Rule, data.Entity, data.Key)
	}
	if n.digest != nil {
		m.SendAt = new(n.digest.after(now, p.grid, clocks).UTC())
	}
	text, _ := json.Marshal(m) // never fails
	return &event.Event{
		ID:     p.messageID(i, data.Since, data.repetition()),
		Source: p.Source, Type: message.Type(n.Receiver), Subject: subject,
		Time: data.At, PublishedAt: now, Data: text,
	}
}

// htmlOf returns the HTML of a message. It is empty if the template cannot be executed to its end: the text is enough.
func (n *notifier) htmlOf(values map[string]any) string {
	var b strings.Builder
	if n.html == nil || n.html.Execute(&b, values) != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}

// messageID is eventID for the message of a step.
func (p *page) messageID(i int, since time.Time, step string) string {
	return p.eventID(i, since, "message\x00"+step) // no step has such a name
}

// clocks returns the clocks that count for a row. Only what follows the end of a wait may get UTC for a name that is
// not known: no step fires then.
func (p *page) clocks(i int) *clocks {
	c, _ := p.rule.timing.clocksFor(p.turns[i].seen.Held)
	return c
}

// values returns what templates know. Instants are by clocks of the rule or of the row.
func values(data stepData, c *clocks) map[string]any {
	at := func(t time.Time) string { return message.At(t, c.zone) }
	return map[string]any{
		"rule": data.Rule, "step": data.Step, "entity": data.Entity, "key": data.Key, "since": at(data.Since),
		"when": data.When, "number": data.Number, "at": at(data.At), "payload": columns(data.Payload),
	}
}

// columns returns the columns of a payload as people read them.
func columns(payload json.RawMessage) map[string]any {
	values, _ := message.Plain(payload).(map[string]any)
	return values
}
