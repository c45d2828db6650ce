package pages

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/jobs"
)

// formPage is a form, or the preview of its action.
type formPage struct {
	Form    action.Form
	Inputs  []filled
	Problem string
	Plan    board.Plan
	Do      string // the address that does the action
	Back    string // the address of the form, with what was filled in; empty: there is nothing to fill in
	Many    bool   // a list gave values, which the address does not have
}

// filled is a field with its value.
type filled struct {
	action.Field
	Value, Wrong string
	Values       []string // of a field with many, which forms carry along
	Offers       []string // names to choose from
}

// fill returns a field with what the request has for it.
func fill(f action.Field, in *action.Input) filled {
	v := filled{Field: f, Value: cmp.Or(in.Text(f.Name), f.Default), Wrong: in.Wrong[f.Name]}
	if f.Many {
		v.Values = in.Values[f.Name]
		v.Value = plural(int64(len(v.Values)), "row", "rows")
	}
	return v
}

// actions shows the forms and the previews of actions, and does them.
type actions struct{ *site }

// do shows the form of an action. When that is filled in, it shows the preview. When that is
// confirmed, it does the action.
func (p actions) do(d *action.Form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			p.fail(w, r, http.StatusBadRequest, "The form cannot be read.")
			return
		}
		o, err := p.cfg.Board.Overview(r.Context(), 0)
		if err != nil {
			p.failed(w, r, err)
			return
		}
		in := &action.Input{Values: r.Form, Now: o.Now, Wrong: map[string]string{}}
		if r.Method == http.MethodGet && d.Asks() || r.Form.Has("edit") {
			p.showForm(w, r, d, in, http.StatusOK, "")
			return
		}
		action := d.Action(in)
		if action == nil {
			p.showForm(w, r, d, in, http.StatusUnprocessableEntity, "")
			return
		}
		if r.Method == http.MethodPost && r.Form.Get("confirm") != "" {
			p.act(w, r, d, in, action)
			return
		}
		plan, err := p.cfg.Board.Preview(r.Context(), visitor(r.Context()), action)
		if err != nil {
			p.refuse(w, r, d, in, err)
			return
		}
		p.showPlan(w, r, d, in, http.StatusOK, plan, "")
	}
}

// act does a confirmed action, and then shows the page that the action changed.
func (p actions) act(w http.ResponseWriter, r *http.Request, d *action.Form, in *action.Input, action action.Action) {
	done, err := p.cfg.Board.Do(r.Context(), visitor(r.Context()), action, r.Form.Get("confirm"))
	if changed, ok := errors.AsType[*board.ChangedError](err); ok {
		p.showPlan(w, r, d, in, http.StatusConflict, changed.Plan,
			"The data has changed since the preview, and nothing was done. This is the new preview.")
		return
	}
	if err != nil {
		p.refuse(w, r, d, in, err)
		return
	}
	http.Redirect(w, r, p.link("/actions", "acted", done.Acted, "id", done.ID), http.StatusSeeOther)
}

// refuse shows the form of an action with the problem.
func (p actions) refuse(w http.ResponseWriter, r *http.Request, d *action.Form, in *action.Input, err error) {
	refused, isRefused := errors.AsType[*action.RefusedError](err)
	field, isField := errors.AsType[*jobs.FieldError](err)
	switch {
	case isRefused:
		p.showForm(w, r, d, in, http.StatusUnprocessableEntity, refused.Reason)
	case isField:
		p.showForm(w, r, d, in, http.StatusUnprocessableEntity, field.Error())
	case errors.Is(err, board.ErrCatchingUp), errors.Is(err, board.ErrLocked):
		p.showForm(w, r, d, in, http.StatusConflict, err.Error())
	default:
		p.failed(w, r, err)
	}
}

func (p actions) showForm(
	w http.ResponseWriter, r *http.Request, d *action.Form, in *action.Input, status int, problem string,
) {
	v := formPage{Form: *d, Problem: problem, Back: "/"}
	for _, f := range d.Fields {
		input := fill(f, in)
		input.Fixed = f.Many || f.Fixed && input.Wrong == "" && (input.Value != "" || !f.Required)
		if input.Fixed && input.Value == "" {
			continue
		}
		if !input.Fixed && f.Names != "" {
			input.Offers = p.offer(r.Context(), f.Names)
		}
		v.Inputs = append(v.Inputs, input)
	}
	v.Do = "/do/" + d.Path + "?" + fixed(v.Inputs).Encode()
	p.show(w, r, status, "form", page{Title: d.Title, Content: v})
}

// offer returns names to choose from. A form works without them.
func (p actions) offer(ctx context.Context, of action.Named) []string {
	names, err := p.cfg.Board.Names(ctx, of)
	if err != nil {
		p.cfg.Logger.WarnContext(ctx, "a form offers no names", "of", of, "error", err)
	}
	return names
}

// fixed returns the values that a form does not ask for. They are part of its address.
func fixed(inputs []filled) url.Values {
	values := url.Values{}
	for _, f := range inputs {
		if f.Fixed && !f.Many {
			values.Set(f.Name, f.Value)
		}
	}
	return values
}

func (p actions) showPlan(
	w http.ResponseWriter, r *http.Request, d *action.Form, in *action.Input, status int, plan board.Plan, problem string,
) {
	all := url.Values{}
	v := formPage{Form: *d, Plan: plan, Problem: problem}
	for _, f := range d.Fields {
		value := in.Text(f.Name)
		if value == "" {
			continue
		}
		if v.Inputs = append(v.Inputs, fill(f, in)); f.Many {
			v.Many = true
		} else {
			all.Set(f.Name, value)
		}
	}
	if !v.Many || d.Asks() {
		v.Back = "/do/" + d.Path + "?edit=&" + all.Encode()
	}
	all.Set("confirm", plan.Confirm)
	v.Do = "/do/" + d.Path + "?" + all.Encode()
	p.show(w, r, status, "plan", page{Title: d.Title, Content: v})
}
