package rule

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
)

// fire fires the steps that are due, and records them. The error of one row leaves the other rows as
// they are.
func (p *page) fire(ctx context.Context) error {
	var statements, others []int // the rows whose steps act, with a statement and without one
	for i := range p.rows {
		p.prepare(i)
		switch is := p.turns[i].is; {
		case p.results[i].Err != nil || len(is.Due)+len(is.Over) == 0 && !is.Met:
		case p.hasStatement(i):
			statements = append(statements, i)
		default:
			others = append(others, i)
		}
	}
	if len(statements)+len(others) == 0 {
		return nil
	}
	// Events that are written cannot be taken back for one row, so the SQL comes first.
	if len(statements) > 0 {
		if err := p.execute(ctx, statements); err != nil {
			return err
		}
		if err := p.lookAgain(ctx, others); err != nil {
			return err
		}
	}
	if err := p.publish(ctx); err != nil {
		return err
	}
	return p.record(ctx)
}

// hasStatement reports whether a step that is due for a row has a statement.
func (p *page) hasStatement(i int) bool {
	return slices.ContainsFunc(p.turns[i].is.Due, func(d Due) bool { return p.rule.Rule.Steps[d.Step].SQL != "" })
}

// lookAgain looks at rows once the statements of others have acted. A row that has a statement to execute now waits for
// the next slot.
func (p *page) lookAgain(ctx context.Context, rows []int) error {
	if err := p.look(ctx, rows); err != nil {
		return err
	}
	for _, i := range rows {
		if p.results[i].Err == nil && p.hasStatement(i) {
			p.postpone(i)
		}
	}
	return nil
}

// fail gives a row an error, instead of all else.
func (p *page) fail(i int, err error) { p.results[i] = jobs.Result{Err: err} }

// prepare makes the events and the checks of the steps of a row. What cannot be published or enqueued is the error of
// the row, before anything is written.
func (p *page) prepare(i int) {
	if p.results[i].Err != nil {
		return
	}
	err := p.after(i)
	for _, d := range p.turns[i].is.Due {
		if err == nil {
			s := &p.rule.Rule.Steps[d.Step]
			err = p.act(i, Act{Event: s.Event, Job: s.Job}, p.rule.notify[d.Step], p.stepData(i, s, d), false)
		}
	}
	if err != nil {
		p.fail(i, err)
	}
}

// enqueue enqueues the job of a step for the same entity.
func (p *page) enqueue(i int, step, job string, data json.RawMessage) error {
	row := p.rows[i]
	request := jobs.Request{
		JobExec: job, EntityName: row.EntityName, EntityKey: row.EntityKey, CheckAt: row.Slot, Payload: data,
	}
	if err := request.Validate(); err != nil {
		return fmt.Errorf("enqueue the job of step %s: %w", step, err)
	}
	p.results[i].Enqueue = append(p.results[i].Enqueue, request)
	return nil
}

// tooLarge is the error of a row whose payload is too large.
func (p *page) tooLarge(i int) error {
	return fmt.Errorf("the payload of rule %s exceeds %d MiB for key %q. "+
		"Select what consumers need, or where they find it", p.rule.Rule.Name, mostAnswers>>20, p.rows[i].EntityKey)
}

// publish publishes the events of the rows without an error.
func (p *page) publish(ctx context.Context) error {
	var events []event.Event
	for i := range p.turns {
		if p.results[i].Err == nil {
			events = append(events, p.turns[i].events...)
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := p.Publisher.PublishTx(ctx, p.tx, events); err != nil {
		return fmt.Errorf("publish the events: %w", err)
	}
	return nil
}

// Subject returns the subject of the events that rules publish about an entity. A control character of the key, such as
// a line break, is written as in a URL, because no subject may have one: %0A. The data of an event have the key as it
// is.
func Subject(entityName, entityKey string) string {
	if strings.ContainsFunc(entityKey, unicode.IsControl) {
		entityKey = controls.ReplaceAllStringFunc(entityKey, url.PathEscape)
	}
	return entityName + "/" + entityKey
}

// controls matches what Subject writes in another way.
var controls = regexp.MustCompile(`[\p{Cc}%]`)

// eventID returns the ID of the event of a step of a row, for an instant from which delays count. The step is named as
// by Repetition. A call that is repeated gives the event the same ID. A step that fires again, because the rule was
// removed and applied again, gets another ID.
func (p *page) eventID(i int, since time.Time, step string) string {
	return hashOf(p.rule.Rule.Name, p.rows[i].EntityKey, since, fmt.Sprintf("%d %s", p.created.UnixMicro(), step))
}

// problem returns the ID and the subject that are the same for all messages about a row, for an instant from which
// delays count. They stay if the row gets another key, or the start of its clock another instant. The ID also stays if
// the rule is removed and applied again.
func (p *page) problem(i int, since time.Time) (id, subject string) {
	first, fired := p.turns[i].alarms[since.UnixMicro()]
	if !fired {
		first = alarm{p.rows[i].EntityKey, since}
	}
	return hashOf(p.rule.Rule.Name, first.key, first.since, ""), Subject(p.rows[i].EntityName, first.key)
}

func hashOf(rule, key string, since time.Time, of string) string {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%q %q %d %q", rule, key, since.UnixMicro(), of) // a hash never fails
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// stepData is the data of an event, and the payload of a job.
type stepData struct {
	Rule    string          `json:"rule"`
	Step    string          `json:"step"`
	Entity  string          `json:"entity"`
	Key     string          `json:"key"`
	Since   time.Time       `json:"since"`
	When    string          `json:"when"`             // see Step.whenFor
	Number  int             `json:"number,omitempty"` // of a step that repeats, from 1
	At      time.Time       `json:"at"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// repetition returns the step as Repetition names it.
func (d stepData) repetition() string { return Repetition(d.Step, max(1, d.Number)) }

func (p *page) stepData(i int, s *Step, d Due) stepData {
	row, seen := p.rows[i], p.turns[i].seen
	var held expr.Held
	if d.Step < len(seen.Held) {
		held = seen.Held[d.Step]
	}
	data := stepData{
		Rule: p.rule.Rule.Name, Step: s.Name, Entity: row.EntityName, Key: row.EntityKey, Since: seen.Since,
		When: s.whenFor(held), At: d.At, Payload: seen.payload,
	}
	if s.Repeats() {
		data.Number = d.Number
	}
	return data
}

// execute executes the SQL of the steps of rows. It tries all of it at once first, because each savepoint costs,
// and more than 64 of them cost every session of the server. If that fails, each row has its own.
func (p *page) execute(ctx context.Context, rows []int) error {
	began := time.Now() //nolint:forbidigo // measures how long the rows are held
	defer func() { p.rule.pace.note(p.last(rows), time.Since(began)) }()
	if len(rows) > 1 {
		err := p.executeFor(ctx, began, rows)
		if err == nil || errors.Is(err, jobs.ErrDivide) {
			return err
		}
		began = time.Now() //nolint:forbidigo // as above
	}
	for n, i := range rows {
		if n > 0 && p.leave(began, rows[n:]) {
			break
		}
		if p.results[i].Err != nil { // it was decided about again
			continue
		}
		err := p.executeFor(ctx, began, []int{i})
		if errors.Is(err, jobs.ErrDivide) {
			return err
		}
		if err != nil {
			p.fail(i, err)
		}
	}
	return nil
}

// leave leaves rows to the next call, if statements have held the rows of the page for long. The application waits for
// them.
func (p *page) leave(began time.Time, rows []int) bool {
	if time.Since(began) < holdTime {
		return false
	}
	for _, i := range rows {
		p.fail(i, leave.ErrToNext)
	}
	return true
}

// last returns how many rows of the page come up to the last one that was not left.
func (p *page) last(rows []int) int {
	for _, i := range slices.Backward(rows) {
		if !errors.Is(p.results[i].Err, leave.ErrToNext) {
			return i + 1
		}
	}
	return 1
}

// executeFor executes the SQL of the steps of rows, after a savepoint, until it is time to leave the others. If that
// fails, nothing of it is left. The error wraps jobs.ErrDivide if the transaction cannot go on.
func (p *page) executeFor(ctx context.Context, began time.Time, rows []int) error {
	divide := func(err error) error { return fmt.Errorf("%w: %w", jobs.ErrDivide, err) }
	if _, err := p.tx.ExecContext(ctx, "savepoint prescient_rule"); err != nil {
		return divide(err)
	}
	err := p.asRule(ctx, func() error {
		zone := ""
		for n, i := range rows {
			if n > 0 && p.leave(began, rows[n:]) {
				return nil
			}
			if err := p.look(ctx, rows[n:min(n+freshRows, len(rows))]); err != nil {
				return divide(err)
			}
			if err := p.inZone(ctx, i, &zone); err != nil {
				return err
			}
			for _, d := range p.turns[i].is.Due {
				if p.results[i].Err != nil {
					break
				}
				if err := p.executeStep(ctx, i, d); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		_, err = p.tx.ExecContext(ctx, "release savepoint prescient_rule")
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || pg.IsRetryable(err) || pg.IsLockTimeout(err) {
		return divide(err)
	}
	for _, statement := range []string{"rollback to savepoint prescient_rule", "release savepoint prescient_rule"} {
		if _, lost := p.tx.ExecContext(ctx, statement); lost != nil {
			return divide(errors.Join(err, lost))
		}
	}
	return err
}

// asRule calls fn with the role and the clocks of the rule, and sets those of before back. A role may have no replayed
// clock, because only a runner may set one.
func (p *page) asRule(ctx context.Context, fn func() error) error {
	var role, timezone, clock string
	const read = "select current_setting('role'), current_setting('timezone'), " +
		"coalesce(current_setting('prescient_caller.clock', true), '')"
	err := p.tx.QueryRowContext(ctx, read).Scan(&role, &timezone, &clock)
	if err != nil {
		return err
	}
	as := "set local timezone = " + pq.QuoteLiteral(cmp.Or(p.rule.Rule.Timezone, "UTC"))
	if p.rule.Rule.Role != "" {
		as += "; set local prescient_caller.clock = ''; set local role " + pq.QuoteIdentifier(p.rule.Rule.Role)
	}
	if _, err := p.tx.ExecContext(ctx, as); err != nil {
		return fmt.Errorf("take the role and the timezone of rule %s: %w", p.rule.Rule.Name, err)
	}
	if err := fn(); err != nil {
		return err // the savepoint has the settings of before
	}
	const back = "select set_config('role', $1, true), set_config('timezone', $2, true), " +
		"set_config('prescient_caller.clock', $3, true)"
	if _, err := p.tx.ExecContext(ctx, back, role, timezone, clock); err != nil {
		return fmt.Errorf("give back the role and the timezone of rule %s: %w", p.rule.Rule.Name, err)
	}
	return nil
}

// inZone lets statements go by the clocks that the data of a row name. zone is the name of the clocks by which they go.
func (p *page) inZone(ctx context.Context, i int, zone *string) error {
	if name := p.clocks(i).zone.String(); p.rule.Rule.TimezoneName != "" && name != *zone {
		*zone = name
		_, err := p.tx.ExecContext(ctx, "select set_config('timezone', $1, true)", name)
		return err
	}
	return nil
}

// executeStep executes the SQL of a step for a row, if it has any.
func (p *page) executeStep(ctx context.Context, i int, d Due) error {
	s, statement := p.rule.Rule.Steps[d.Step], p.rule.sql[d.Step]
	if s.SQL == "" {
		return nil
	}
	seen := p.turns[i].seen
	args := make([]any, len(statement.values))
	keys, _ := ParseKey(p.rows[i].EntityKey, len(p.rule.Key))
	for n, name := range statement.values {
		switch name {
		default:
			args[n] = keys[slices.IndexFunc(p.rule.Key, func(c string) bool { return keyValue(c) == name })]
		case valueKey:
			args[n] = p.rows[i].EntityKey
		case valueSince:
			args[n] = seen.Since.Format(time.RFC3339Nano)
		case valueNow:
			row := p.rows[i]
			args[n] = row.Slot.Add(row.Lateness).Format(time.RFC3339Nano)
		case valueStep:
			args[n] = s.Name
		case valueNumber:
			args[n] = d.Number
		case valuePayload:
			if seen.payload != nil {
				args[n] = string(seen.payload)
			}
		}
	}
	_, err := p.tx.ExecContext(ctx, statement.query, args...)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("step %s: %w", s.Name, err)
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		who := "login that runs the slots"
		if role := p.rule.Rule.Role; role != "" {
			who = "role " + role + " of the rule"
		}
		do := "grant it the right"
		if pg.IsPolicy(err) {
			do = "create a policy that lets it write the row"
		}
		return fmt.Errorf("%w. The %s executes the statement: %s", err, who, do)
	}
	return err
}
