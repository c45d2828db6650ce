package rulestore_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// applyProcess names the variable that makes the test binary apply a rule to a database.
const applyProcess = "PRESCIENT_TEST_APPLY_DATABASE"

func TestMain(m *testing.M) {
	if url := os.Getenv(applyProcess); url != "" {
		if err := applyAfterADay(context.Background(), url); err != nil {
			slog.Error("apply", "error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, err := otherZones()
	if err == nil {
		err = os.Setenv("ZONEINFO", dir) // which Go reads once
	}
	if err != nil {
		slog.Error("make other zone data", "error", err)
		os.Exit(1)
	}
	code := pgtest.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// otherZones writes zone data that the server does not have: a new zone, and a zone with another law. It returns their
// directory.
func otherZones() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "zones"); err != nil {
		return "", err
	}
	return dir, os.CopyFS(dir, zones)
}

// zones are America/Newtown, and America/Phoenix with the clocks of Tokyo.
var zones = fstest.MapFS{
	"America/Newtown": &fstest.MapFile{Data: fixedZone("NST", -5*3600)},
	"America/Phoenix": &fstest.MapFile{Data: fixedZone("PST", 9*3600)},
}

// fixedZone returns a file of zone data, as of RFC 8536, whose clocks never change.
func fixedZone(name string, shift int32) []byte {
	b := append([]byte("TZif"), make([]byte, 16)...)
	for _, n := range []uint32{0, 0, 0, 0, 1, uint32(len(name) + 1)} { // counts: one type, and its name
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = append(binary.BigEndian.AppendUint32(b, uint32(shift)), 0, 0)
	return append(b, name+"\x00"...)
}

// afterADay is the rule of unshipped orders, with its first step after a day.
var afterADay = strings.Replace(unshipped, "after: 2d", "after: 1d", 1)

// applyAfterADay applies the rule in many small transactions.
func applyAfterADay(ctx context.Context, url string) error {
	file, err := rule.Parse(strings.NewReader(afterADay))
	if err != nil {
		return err
	}
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	store, err := rulestore.New(ctx, db, rulestore.Config{PageSize: 10})
	if err != nil {
		return err
	}
	_, err = store.Apply(ctx, file, nil)
	return err
}

func TestAnApplyWhoseProcessIsKilledIsResumedAndMissesNoRow(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := newShopOn(t, url)
	s.exec("insert into shop.orders (id, placed_at) select n, now() - n % 20 * interval '1 hour' from generate_series(1, 2000) as n")
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() { s.write(ctx, 0) })
	const position = "select coalesce(max(position::bigint), 0) from prescient.rule where name = 'order.unshipped'"
	kills := 3
	if testing.Short() {
		kills = 1
	}
	for kill := range kills {
		was := s.count(position)
		p := pgtest.StartProcess(t, applyProcess+"="+url)
		s.eventually("the walk to go on", func() bool { return s.count(position) > was })
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait()
		if status, err := s.store.Get(t.Context(), "order.unshipped"); err != nil || status.State != rulestore.Applying {
			t.Fatalf("after kill %d: %+v, %v\n%s", kill+1, status, err, &p.Log)
		}
	}
	if plan := s.plan(afterADay).Rules[0]; plan.Action != rulestore.Resume {
		t.Errorf("planned %+v", plan)
	}
	s.apply(afterADay)
	stop()
	writer.Wait()
	if status, err := s.store.Get(t.Context(), "order.unshipped"); err != nil || status.State != rulestore.Active || status.Version != 1 {
		t.Errorf("%+v, %v", status, err)
	}
	s.everyRowThatCountsWaits()
}

// eventually waits until a condition holds.
func (s *shop) eventually(what string, holds func() bool) {
	s.t.Helper()
	await.True(s.t, what, holds)
}
