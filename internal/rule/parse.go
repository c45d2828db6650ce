package rule

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// The bounds of a file.
const (
	maxFile  = 1 << 20
	maxRules = 1000
	maxSteps = 100
)

// Parse reads a file of rules, in YAML or JSON. It fills in the defaults of names, and reads the files of
// holidays, whose paths are relative to the working directory. The error joins a Problem for each mistake, in
// the order of the file. The file then has what could be read.
func Parse(in io.Reader) (File, error) { return ParseIn(in, "") }

// ParseIn is Parse with paths relative to a directory.
func ParseIn(in io.Reader, dir string) (File, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return File{}, fmt.Errorf("read the rules: %w", err)
	case len(text) > maxFile:
		return File{}, &Problem{Message: fmt.Sprintf("the file has more than %d bytes", maxFile)}
	}
	root, err := document(text)
	if err != nil {
		return File{}, err
	}
	r := &reader{dir: dir}
	file := r.file(root)
	if len(r.errs) > 0 {
		return file, JoinByLine(r.errs)
	}
	return file, nil
}

// document returns the root of a file that has one document.
func document(text []byte) (*yaml.Node, error) {
	const empty = "it is empty; a file without rules is written: rules: []"
	in := &lines{rest: text}
	decoder := yaml.NewDecoder(in)
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Problem{Message: empty}
	case err != nil:
		return nil, malformed(text, err, in.read)
	}
	root := value(doc.Content[0])
	if root == nil {
		return nil, &Problem{Message: empty}
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &Problem{Line: more.Line, Message: "the file has a second document: write all rules into one list"}
	}
	return root, nil
}

// quotedBegin matches a line whose value goes on behind its quotes: done: "status" <> 'open'.
var quotedBegin = regexp.MustCompile(`^[ -]*([\w-]+): *(("[^"]*")[^\S\r\n]*[^\s#,}\]].*?)\s*(?: #.*)?$`)

// indentedByTab matches a line that begins with a tab, perhaps after spaces.
var indentedByTab = regexp.MustCompile(`(?m)^ *\t`)

// lines reads a text line by line, and counts the lines.
type lines struct {
	rest []byte
	read int
}

func (l *lines) Read(p []byte) (n int, err error) {
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	end := bytes.IndexByte(l.rest, '\n') + 1
	if end == 0 {
		end = len(l.rest)
	}
	n = copy(p, l.rest[:end])
	if l.rest = l.rest[n:]; n == end {
		l.read++
	}
	return n, nil
}

// ahead is how many lines the decoder reads at most behind the one that is at fault.
const ahead = 3

// lineAtFault returns the line at which the decoder cannot go on. The decoder names the line at which the block begins.
// The lines before the one at fault can be decoded. read is how many lines the decoder has read.
func lineAtFault(text []byte, read int) (line int, found bool) {
	all := bytes.SplitAfter(text, []byte("\n"))
	for n := min(read, len(all)) - 1; n > 0 && n >= read-ahead; n-- {
		var doc yaml.Node
		if yaml.Unmarshal(bytes.Join(all[:n], nil), &doc) == nil {
			return n + 1, true
		}
	}
	return 0, false
}

// malformed makes an error of the YAML decoder a Problem with its line. read is how many lines it has read.
func malformed(text []byte, err error, read int) *Problem {
	p := &Problem{Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	if line, message, found := strings.Cut(strings.TrimPrefix(p.Message, "line "), ": "); found {
		if n, err := strconv.Atoi(line); err == nil {
			p.Line, p.Message = n, message
		}
	}
	if line, found := lineAtFault(text, read); found {
		p.Line = line
	}
	if all := bytes.Split(text, []byte("\n")); p.Line > 0 && p.Line <= len(all) {
		if found := quotedBegin.FindSubmatch(all[p.Line-1]); found != nil {
			p.Message = fmt.Sprintf("YAML takes the quotes of %s as those of the whole text, and more follows. Put the whole "+
				"text into single quotes: %s: '%s'", found[3], found[1], bytes.ReplaceAll(found[2], []byte("'"), []byte("''")))
		}
	}
	tab := indentedByTab.FindIndex(text)
	if tab != nil && (strings.Contains(p.Message, "cannot start any token") || strings.Contains(p.Message,
		"tab character")) {
		if line := 1 + bytes.Count(text[:tab[0]], []byte("\n")); line <= p.Line+1 {
			p.Line, p.Message = line, "indent with spaces, not with tabs"
		}
	}
	return p
}

// fileVersion is the version of the format of a file with rules. It rises when an older file would mean something
// else.
const fileVersion = "1"

func (r *reader) file(root *yaml.Node) (f File) {
	hasRules := false
	pairs := r.mapping(root, "", []string{"calendars", "rules", "version"})
	whole := len(r.errs) == 0
	for _, p := range pairs {
		switch p.key.Value {
		case "calendars":
			f.Calendars = r.calendars(p.value)
		case "version":
			if p.value.Value != fileVersion {
				r.wrong(p.value.Line, "version", "must be %s, which is the version of files that this binary reads", fileVersion)
			}
		default:
			hasRules = true
			f.Rules = r.rules(p.value)
		}
	}
	if !hasRules && whole {
		r.wrong(root.Line, "rules", "must be set; a file without rules is written: rules: []")
	}
	for i := range f.Rules {
		r.checkSteps(f.Rules[i], f.Calendars)
	}
	return f
}

func (r *reader) calendars(node *yaml.Node) map[string]Calendar {
	calendars := map[string]Calendar{}
	for _, p := range r.mapping(node, "calendars", nil) {
		at := path("calendars", p.key.Value)
		before := len(r.errs)
		c := r.calendar(p.value, at)
		if _, err := c.compile(); err != nil && len(r.errs) == before {
			r.wrong(p.key.Line, at, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		calendars[p.key.Value] = c
	}
	return calendars
}

func (r *reader) calendar(node *yaml.Node, at string) (c Calendar) {
	texts := map[string]*string{"timezone": &c.Timezone, "country": &c.Country, "region": &c.Region, "hours": &c.Hours}
	for _, p := range r.mapping(node, at, []string{"timezone", "country", "region", "hours", "holidays", "workdays"}) {
		field := path(at, p.key.Value)
		switch p.key.Value {
		case "holidays":
			r.holidays(p.value, field, &c)
		case "workdays":
			c.Workdays = r.texts(p.value, field)
		default:
			*texts[p.key.Value] = r.text(p.value, field)
		}
	}
	return c
}

// holidays reads a list of days and files, or one file.
func (r *reader) holidays(node *yaml.Node, at string, c *Calendar) {
	entries := []*yaml.Node{node}
	if node.Kind != yaml.MappingNode {
		entries = r.list(node, at)
	}
	for _, entry := range entries {
		if entry.Kind != yaml.MappingNode {
			c.Holidays = append(c.Holidays, r.text(entry, at))
			continue
		}
		for _, p := range r.mapping(entry, at, []string{"file"}) {
			name := r.text(p.value, path(at, "file"))
			file, err := readHolidays(r.dir, name)
			if err != nil {
				r.wrong(p.value.Line, path(at, "file"), "%s: %v", name, err)
			}
			c.Files = append(c.Files, file)
		}
	}
}

func (r *reader) rules(node *yaml.Node) (rules []Rule) {
	lines := map[string]int{}
	nodes := r.list(node, "rules")
	if len(nodes) > maxRules {
		r.wrong(node.Line, "rules", "has %d rules, and may have %d", len(nodes), maxRules)
		return nil
	}
	for _, n := range nodes {
		one := r.one(n)
		if first, again := lines[one.Name]; again && one.Name != "" {
			r.errs = append(r.errs, one.Problem("name", "the rule of line %d has this name, too", first))
		} else {
			lines[one.Name] = one.Line
		}
		rules = append(rules, one)
	}
	return rules
}

var ruleFields = []string{
	"name", "table", "key", "entity", "since", "done", "where", "pause", "payload", "timezone", "also", "recheck", "steps",
	"recovered", "met", "overdue", "cancel", "role",
}

// one reads a rule.
func (r *reader) one(node *yaml.Node) Rule {
	rule := Rule{Line: node.Line, Lines: map[string]int{}}
	defer func() { r.rule = "" }()
	before := len(r.errs)
	r.rule = nameOf(node)
	pairs := r.mapping(node, "", ruleFields)
	texts := map[string]*string{
		"name": &rule.Name, "table": &rule.Table, "entity": &rule.Entity, "role": &rule.Role,
		"timezone": &rule.Timezone,
	}
	lists := map[string]*Texts{"since": &rule.Since, "done": &rule.Done, "where": &rule.Where, "pause": &rule.Pause}
	for _, p := range pairs {
		field := p.key.Value
		rule.Lines[field] = p.key.Line
		switch field {
		case "key":
			rule.Key = r.columns(p.value, field)
		case "payload":
			r.payload(p.value, &rule)
		case "steps":
			rule.Steps = r.steps(p.value, &rule)
		case "overdue":
			if err := rule.Overdue.UnmarshalText([]byte(r.text(p.value, field))); err != nil {
				r.wrong(p.value.Line, field, "%s", err)
			}
		case "also":
			rule.Also = r.also(p.value, &rule)
		case "recovered":
			rule.Recovered = r.act(p.value, field)
		case "met":
			rule.Met = r.act(p.value, field)
		case "cancel":
			rule.AtOnce = r.cancel(p.value)
		case "recheck":
			recheck, err := duration.Parse(r.text(p.value, field))
			if rule.Recheck.Duration = recheck; err != nil || recheck == 0 || recheck > maxDuration {
				r.wrong(p.value.Line, field, "%q: want plain time, such as 5m", p.value.Value)
			}
		case "since", "done", "where", "pause":
			*lists[field] = r.expressions(p.value, field, rule.Lines)
		case "timezone":
			if p.value.Kind == yaml.MappingNode {
				rule.TimezoneName = r.held(p.value, field, heldZone)
				continue
			}
			fallthrough
		default:
			*texts[field] = strings.TrimSpace(r.text(p.value, field))
		}
	}
	if node.Kind == yaml.MappingNode {
		r.complete(&rule, r.errs[before:])
	}
	return rule
}

// complete adds the mistakes of a rule that do not follow from those that were found when it was read. A field that
// does not exist may be meant for one that is missing.
func (r *reader) complete(rule *Rule, known []error) {
	for _, err := range rule.complete() {
		problem, _ := errors.AsType[*Problem](err)
		of, _ := entryOf(problem.Field)
		missing := slices.Contains(ruleFields, of) && rule.Lines[of] == 0
		follows := func(err error) bool {
			p, _ := errors.AsType[*Problem](err)
			field, _ := entryOf(p.Field)
			unknown := !slices.Contains(ruleFields, field) && rule.Lines[field] == 0
			return p.Hides(problem) || unknown && missing
		}
		if !slices.ContainsFunc(known, follows) {
			r.errs = append(r.errs, err)
		}
	}
}

// maxField bounds the name of a field of a payload, in bytes: it is a name of SQL.
const maxField = 63

// payload reads a list of columns, and of expressions with their names: [amount, {title: "(select ...)"}].
func (r *reader) payload(node *yaml.Node, rule *Rule) {
	for i, entry := range r.list(node, "payload") {
		at := fmt.Sprintf("payload[%d]", i+1)
		rule.Lines[at] = entry.Line
		if entry.Kind != yaml.MappingNode {
			rule.Payload = append(rule.Payload, r.text(entry, at))
			continue
		}
		for _, p := range r.mapping(entry, at, nil) {
			name, field := p.key.Value, path(at, p.key.Value)
			rule.Lines[field] = p.key.Line
			text := strings.TrimSpace(r.text(p.value, field))
			if problem := checkLength(name, maxField); problem != "" || name == "" {
				r.wrong(p.key.Line, at, "the name of a value %s", cmp.Or(problem, "is empty"))
			} else if slices.Contains(rule.fields(), name) {
				r.wrong(p.key.Line, field, "is there twice")
			} else if err := expr.Check(text); err != nil && p.value.Kind == yaml.ScalarNode {
				r.wrong(p.value.Line, field, "%s", err)
			}
			rule.Values = append(rule.Values, Value{Name: name, SQL: text})
		}
	}
}

// expressions reads one expression of SQL, or several, and notes the line of each.
func (r *reader) expressions(node *yaml.Node, field string, lines map[string]int) (list Texts) {
	entries := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		entries = r.list(node, field)
	}
	for i, entry := range entries {
		at := Entry(field, i, len(entries))
		lines[at] = entry.Line
		text := strings.TrimSpace(r.text(entry, at))
		if text == "" && node.Kind == yaml.ScalarNode { // as if the field was not there
			return nil
		}
		if err := expr.Check(text); err != nil && entry.Kind == yaml.ScalarNode {
			r.wrong(entry.Line, at, "%s", err)
			continue
		}
		list = append(list, text)
	}
	return list
}

// columns reads a column, or a list of them.
func (r *reader) columns(node *yaml.Node, field string) (list Texts) {
	if node.Kind != yaml.SequenceNode {
		if text := strings.TrimSpace(r.text(node, field)); text != "" {
			list = Texts{text}
		}
		return list
	}
	for _, text := range r.texts(node, field) {
		list = append(list, strings.TrimSpace(text))
	}
	return list
}

// Entry returns the name of an entry of a field that may have several, by its position from 0: "since[2]". The only
// entry has the name of the field.
func Entry(field string, i, n int) string {
	if n < 2 {
		return field
	}
	return fmt.Sprintf("%s[%d]", field, i+1)
}

// nameOf returns the name of a rule, which may stand behind mistakes.
func nameOf(node *yaml.Node) string {
	for i := 0; node.Kind == yaml.MappingNode && i < len(node.Content); i += 2 {
		if name := value(node.Content[i+1]); node.Content[i].Value == "name" && name != nil {
			return name.Value
		}
	}
	return ""
}

func (r *reader) cancel(node *yaml.Node) bool {
	switch text := r.text(node, "cancel"); text {
	case "at-once":
		return true
	case "when-due":
	default:
		r.wrong(node.Line, "cancel", "%q: want when-due, the default, or at-once", text)
	}
	return false
}

// maxAlso bounds the tables of Rule.Also.
const maxAlso = 10

// also reads the other tables, or one.
func (r *reader) also(node *yaml.Node, rule *Rule) (list []Also) {
	entries := []*yaml.Node{node}
	if node.Kind != yaml.MappingNode {
		entries = r.list(node, "also")
	}
	if len(entries) > maxAlso {
		r.wrong(node.Line, "also", "has %d tables, and may have %d", len(entries), maxAlso)
		return nil
	}
	for i, entry := range entries {
		at := Entry("also", i, len(entries))
		rule.Lines[at] = entry.Line
		var one Also
		before := len(r.errs)
		for _, p := range r.mapping(entry, at, []string{"table", "key"}) {
			if field := path(at, p.key.Value); p.key.Value == "key" {
				one.Key = r.columns(p.value, field)
			} else {
				one.Table = strings.TrimSpace(r.text(p.value, field))
			}
		}
		switch {
		case len(r.errs) > before: // what is missing may be misspelt
		case one.Table == "" || len(one.Key) == 0:
			r.wrong(entry.Line, at, "want a table and its column with the key of the rule's row, such as "+
				"{table: shop.payment, key: order_id}")
		case slices.ContainsFunc(list, func(a Also) bool { return a.Table == one.Table && slices.Equal(a.Key, one.Key) }):
			r.wrong(entry.Line, at, "table %s is there twice with key %s", one.Table, one.Key)
		}
		list = append(list, one)
	}
	return list
}

// act reads what follows the end of a wait.
func (r *reader) act(node *yaml.Node, field string) (act Act) {
	texts := act.texts()
	texts["event"], texts["job"] = &act.Event, &act.Job
	before := len(r.errs)
	for _, p := range r.mapping(node, field, append([]string{"event", "job"}, notifyFields...)) {
		*texts[p.key.Value] = strings.TrimSpace(r.text(p.value, path(field, p.key.Value)))
	}
	if act.Event == "" && act.Job == "" && act.Receiver == "" && len(r.errs) == before {
		r.wrong(node.Line, field, "want the type of an event, a job or a receiver, such as {event: order.shipped} or "+
			"{notify: ops}")
	}
	return act
}

// unread is the delay of a step whose delay is missing or cannot be read.
var unread = Delay{Duration: -1}

func (r *reader) steps(node *yaml.Node, rule *Rule) (steps []Step) {
	nodes := r.list(node, "steps")
	if len(nodes) > maxSteps {
		r.wrong(node.Line, "steps", "has %d steps, and may have %d", len(nodes), maxSteps)
		return nil
	}
	for i, n := range nodes {
		steps = append(steps, r.step(n, fmt.Sprintf("steps[%d]", i+1), rule.Lines))
	}
	r.nameSteps(steps)
	return steps
}

var stepFields = append([]string{"after", "before", "every", "times", "calendar", "event", "sql", "job", "name"},
	notifyFields...)

// oneDelay says what to write in place of a list of delays.
func oneDelay(field string) string {
	if field == "every" {
		return "a step repeats at one interval: write it alone, such as - {after: 1d, every: 2d, event: order.late}"
	}
	return fmt.Sprintf("a step has one delay: write a step for each, such as - {%s: 2d, event: order.late}", field)
}

// step reads a step.
func (r *reader) step(node *yaml.Node, at string, lines map[string]int) Step {
	lines[at] = node.Line
	s := Step{Line: node.Line}
	texts := map[string]*string{"name": &s.Name, "calendar": &s.Calendar, "event": &s.Event, "sql": &s.SQL, "job": &s.Job}
	maps.Copy(texts, s.texts())
	delays := map[string]*Delay{"after": &s.After, "before": &s.Before, "every": &s.Every}
	var first []string // of after and before
	before := len(r.errs)
	pairs := r.mapping(node, at, stepFields)
	whole, read := len(r.errs) == before, true // no field is misspelt; the delays can be read
	for _, p := range pairs {
		name, field := p.key.Value, path(at, p.key.Value)
		lines[field] = p.key.Line
		if p.value.Kind == yaml.MappingNode && r.fromData(&s, p.value, name, field) {
			if name == "after" || name == "before" {
				first, read = append(first, name), read && name == "after"
			}
			continue
		}
		if delays[name] != nil && p.value.Kind == yaml.SequenceNode {
			r.wrong(p.value.Line, field, "%s", oneDelay(name))
			first, read = append(first, name), false
			continue
		}
		text := strings.TrimSpace(r.text(p.value, field))
		switch delay := delays[name]; {
		case p.value.Kind != yaml.ScalarNode: // an error already
			read = read && delay == nil
		case delay != nil:
			problem := delay.UnmarshalText([]byte(text))
			if problem == nil && name != "after" && *delay == (Delay{}) {
				problem = fmt.Errorf("%q: must be longer than 0s", text)
			}
			if problem != nil {
				r.wrong(p.value.Line, field, "%s%s", problem, instead(name, text))
				read = false
			}
		case name == "times":
			times, err := strconv.Atoi(text)
			if s.Times = times; err != nil || times < 1 || times > maxTimes {
				r.wrong(p.value.Line, field, "%q: want a whole number from 1 to %d%s", text, maxTimes, instead(name, text))
			}
		default:
			*texts[name] = text
		}
		if name == "after" || name == "before" {
			first = append(first, name)
		}
	}
	switch {
	case len(first) == 0 && !whole:
	case len(first) == 0:
		r.wrong(node.Line, path(at, "after"), "must be set, such as 48h, or before")
	case len(first) == 2:
		r.wrong(node.Line, path(at, "before"), "a step has either after or before")
	}
	if len(first) != 1 || !read || !whole && s.business() && s.Calendar+s.CalendarName == "" {
		s.After = unread
	}
	return s
}

// instead says what to write for a text that is no delay.
func instead(field, text string) string {
	if d, err := ParseDelay(strings.TrimPrefix(text, "-")); err == nil && strings.HasPrefix(text, "-") {
		if other := map[string]string{"after": "before", "before": "after"}[field]; other != "" {
			return fmt.Sprintf(". Write %s: %s", other, d)
		}
	}
	if found := years.FindStringSubmatch(text); found != nil {
		if d, err := ParseDelay(found[1] + " years"); err == nil {
			return fmt.Sprintf(". Write %s: %s", field, d)
		}
	}
	for _, meant := range []string{"0d " + text, "1 " + text} {
		if d, err := ParseDelay(meant); err == nil && (d != Delay{At: d.At} || strings.HasPrefix(text, "at ")) {
			return fmt.Sprintf(". Write %s: %s", field, meant)
		}
	}
	switch {
	case text == "" || strings.ContainsAny(text[:1], "-0123456789"):
	case field == "times":
		return fmt.Sprintf(". For a number of the row write times: {count: %s}", text)
	case field != "before":
		return fmt.Sprintf(". For a delay of the row write %s: {interval: \"...\"} with SQL of type interval, such as "+
			"make_interval(days => %s)", field, text)
	}
	return ""
}

// years matches a number of years as other languages write it.
var years = regexp.MustCompile(`^([0-9]+) ?y(?:rs?)?$`)

// fromData reads what the data of a row hold for a field of a step. Returns false if they hold nothing for it.
func (r *reader) fromData(s *Step, node *yaml.Node, name, at string) bool {
	switch name {
	case "after":
		s.After, s.Interval = r.interval(node, at)
	case "before":
		r.wrong(node.Line, at, "takes a delay such as 45d. A length that the data hold counts back as "+
			`after: {interval: "- (...)"}`)
	case "every":
		s.EveryInterval = r.held(node, at, heldInterval)
	case "times":
		s.TimesCount = r.held(node, at, heldCount)
	case "calendar":
		s.CalendarName = r.held(node, at, heldCalendar)
	default:
		return false
	}
	return true
}

// holds is a form in which a file says that the data hold a value: its field, an example, and what reads a value that
// is the same for all rows.
type holds struct {
	field, such string
	constant    func(text string) (value string, ok bool)
}

var (
	heldInterval = holds{"interval", "make_interval(days => hold_days)", func(text string) (string, bool) {
		d, err := ParseDelay(text)
		return d.String(), err == nil
	}}
	heldCount = holds{"count", "max_nags", func(text string) (string, bool) {
		return text, digits.MatchString(text)
	}}
	heldCalendar = holds{"name", "region", literal}
	heldZone     = holds{"name", "customer_tz", func(text string) (string, bool) {
		name, is := literal(text)
		if _, err := crontab.Zone("", text); err == nil && strings.Contains(text, "/") {
			return text, true
		}
		return name, is
	}}
)

// literal returns the text of an expression of SQL that is nothing else.
func literal(text string) (value string, ok bool) {
	found := literalText.FindStringSubmatch(text)
	if found == nil {
		return "", false
	}
	return found[1], true
}

var literalText = regexp.MustCompile(`^'([^']+)'$`)

// held reads a value that the data of a row hold.
func (r *reader) held(node *yaml.Node, at string, h holds) (text string) {
	before := len(r.errs)
	for _, p := range r.mapping(node, at, []string{h.field}) {
		text = r.heldText(p.value, at, h)
	}
	if text == "" && len(r.errs) == before {
		r.lacks(node, at, h)
	}
	return text
}

// heldText reads the expression of SQL of such a value.
func (r *reader) heldText(node *yaml.Node, at string, h holds) string {
	text, field := r.expressions(node, path(at, h.field), map[string]int{}).String(), at[strings.LastIndex(at, ".")+1:]
	if value, same := h.constant(text); same {
		r.wrong(node.Line, path(at, h.field), "%s is the same for all rows: write %s: %s. The field %s takes an "+
			"expression of SQL, such as %s", text, field, value, h.field, h.such)
	}
	return text
}

// lacks says that the expression of SQL is missing.
func (r *reader) lacks(node *yaml.Node, at string, h holds) {
	r.wrong(node.Line, at, "want %s: and an expression of SQL, such as %s", h.field, h.such)
}

// interval reads a delay that the data hold, and the least delay.
func (r *reader) interval(node *yaml.Node, at string) (least Delay, interval string) {
	before := len(r.errs)
	for _, p := range r.mapping(node, at, []string{heldInterval.field, "at-least"}) {
		field := path(at, p.key.Value)
		if p.key.Value == heldInterval.field {
			interval = r.heldText(p.value, at, heldInterval)
			continue
		}
		var err error
		if least, err = ParseDelay(r.text(p.value, field)); err != nil {
			r.wrong(p.value.Line, field, "%s", err)
		}
		if least.Duration == 0 && least.Days == 0 || least.At != "" {
			r.wrong(p.value.Line, field, "%s: want plain time or days, such as 30m", least)
		}
	}
	if interval == "" && len(r.errs) == before {
		r.lacks(node, at, heldInterval)
	}
	return least, interval
}

// nameSteps gives a name to each step without one: what it does, unless another one of them does the same. A name does
// not depend on the other steps, because it tells which step has fired when some are added or removed.
func (r *reader) nameSteps(steps []Step) {
	first := map[string]int{}
	for i := range steps {
		s := &steps[i]
		if s.Name != "" || !s.acts() {
			continue
		}
		does := s.does()
		other, again := first[does]
		field := path(fmt.Sprintf("steps[%d]", i+1), "name")
		switch {
		case len(does) > maxName-maxNumber || repetition.MatchString(does):
			r.wrong(s.Line, field, "must be set, because %s is no name of a step: want at most %d bytes, and no # with a "+
				"number at the end", does, maxName-maxNumber)
		case again:
			r.wrong(s.Line, field, "must be set, because it would be %q, as that of step %d. A name tells which step has "+
				"fired, also after steps were added or removed", does, other)
		}
		first[does], s.Name = i+1, does
	}
}
