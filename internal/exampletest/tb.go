package exampletest

import (
	"context"
	"fmt"
	"testing"
)

// TB returns what an example with an output gives to functions that want a testing.TB. An example fails by a panic. end
// calls what was registered by Cleanup.
func TB() (tb testing.TB, end func()) {
	made := &standIn{ctx: context.Background()}
	return made, made.end
}

// standIn is a testing.TB without a test.
type standIn struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
}

func (s *standIn) Helper()                   {}
func (s *standIn) Context() context.Context  { return s.ctx }
func (s *standIn) Cleanup(fn func())         { s.cleanups = append(s.cleanups, fn) }
func (s *standIn) Error(args ...any)         { panic(fmt.Sprint(args...)) }
func (s *standIn) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (s *standIn) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (s *standIn) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func (s *standIn) end() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
}
