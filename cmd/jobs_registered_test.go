package cmd

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

// registration registers job "j" without one option, and with it. both are the options that it needs beside.
type registration struct {
	both []jobs.Option
	with jobs.Option
	// add registers the job; nil: jobs.Each does. with is whether to register it with the option.
	add func(r *jobs.Registry, with bool)
}

// registrations has one for each field of jobs.Definition.
func registrations() map[string]registration {
	batch := func(context.Context, *sqlx.Tx, []jobs.FutureJob) ([]jobs.Result, error) { return nil, nil }
	key := func(job jobs.FutureJob) string { return job.EntityKey }
	return map[string]registration{
		"Name": {add: func(r *jobs.Registry, with bool) {
			name := "j"
			if with {
				name = "k"
			}
			r.Register(name, jobs.BatchInTx(batch))
		}},
		"Group": {add: func(r *jobs.Registry, with bool) {
			if with {
				r.Register("j", jobs.Group("g", batch))
			} else {
				r.Register("j", jobs.BatchInTx(batch))
			}
		}},
		"MaxChecks":   {with: jobs.MaxChecks(777)},
		"Timeout":     {with: jobs.Timeout(777 * time.Second)},
		"Horizon":     {with: jobs.Horizon(777 * time.Hour)},
		"Retry":       {with: jobs.Retry(777)},
		"MaxBackOff":  {with: jobs.MaxBackOff(777)},
		"Deadline":    {with: jobs.Deadline(777 * time.Second)},
		"Within":      {with: jobs.Within(777 * time.Second)},
		"BatchSize":   {with: jobs.BatchSize(777)},
		"Concurrency": {with: jobs.Concurrency(777)},
		"AtMost":      {with: jobs.AtMost(777)},
		"PerSecond":   {with: jobs.PerSecond(777)},
		"LimitBy":     {both: []jobs.Option{jobs.AtMost(1)}, with: jobs.LimitBy(key)},
		"Misfire":     {with: jobs.OnMisfire(jobs.MisfireSkip)},
		"SLA":         {with: jobs.SLA(777 * time.Second)},
		"Priority":    {with: jobs.Priority(777)},
		"DB":          {with: jobs.WithPool(&sqlx.DB{})},
		"Crontab": {add: func(r *jobs.Registry, with bool) {
			check := func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }
			if with {
				r.Periodic("j", "0 9 * * *", jobs.Row(check))
			} else {
				r.Register("j", jobs.Row(check))
			}
		}},
		"Zone": {add: func(r *jobs.Registry, with bool) {
			var options []jobs.Option
			if with {
				options = append(options, jobs.Zone("Europe/Berlin"))
			}
			r.Periodic("j", "0 9 * * *", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), options...)
		}},
	}
}

// A new field of jobs.Definition fails this test until registrations has it, and until the table and the JSON show it.
func TestEveryOptionOfAJobIsShown(t *testing.T) {
	t.Parallel()
	given := registrations()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[jobs.Definition]()) {
		if !field.IsExported() {
			continue
		}
		r, is := given[field.Name]
		if !is {
			t.Errorf("add an option that sets Definition.%s to registrations", field.Name)
			continue
		}
		for _, format := range []string{"table", "json"} {
			without, with := r.registered(t, false, format), r.registered(t, true, format)
			if slices.Equal(strings.Fields(without), strings.Fields(with)) {
				t.Errorf("jobs registered --output %s does not show Definition.%s:\n%s", format, field.Name, with)
			}
		}
	}
}

// registered returns what "jobs registered" prints of the job.
func (r registration) registered(t *testing.T, with bool, format string) string {
	t.Helper()
	registry := jobs.NewRegistry()
	options := r.both
	if with {
		options = append(slices.Clip(options), r.with)
	}
	if r.add != nil {
		r.add(registry, with)
	} else {
		check := func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }
		registry.Register("j", jobs.Each(check), options...)
	}
	var out, log bytes.Buffer
	a := New(registry)
	a.Out, a.Err = &out, &log
	if code := a.Run(t.Context(), []string{"jobs", "registered", "--output", format}); code != Done {
		t.Fatalf("exit code %d: %s", code, &log)
	}
	return out.String()
}
