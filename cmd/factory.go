package cmd

import (
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/config"
)

// factory describes the App to the packages of its commands.
func (a *App) factory() *factory.Factory {
	return &factory.Factory{
		Name: a.Name, Self: a.self, Printer: a.out, Log: a.Log, Done: a.done, Verbose: a.verboseFlag,
		Config: func() config.Loaded { return a.config },
		Origin: a.origin,
		Scope:  func() multistore.Scope { return a.scope },
		Width:  a.askWidth,
	}
}
