package doctorcmd

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/doctor"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/seq"
)

// eventsProblem returns why a destination cannot be opened, or the problem with the file's directory or the address;
// empty: none.
func eventsProblem(ctx context.Context, f *factory.Factory, d config.Destination) string {
	to, err := url.Parse(d.URL.Reveal())
	if !makesFile(to, err) {
		p, err := checks.OpenDestination(ctx, f, d)
		if err != nil {
			return fmt.Sprintf("%s. No event is sent until then", err)
		}
		_ = p.Close() // nothing was sent
	}
	if err == nil && (to.Scheme == "http" || to.Scheme == "https") {
		return forbidden(ctx, f, checks.Setting(f, d), to)
	}
	if err != nil || to.Scheme != "file" {
		return ""
	}
	dir := filepath.Dir(to.Path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Sprintf("%s is a file in %s, which is no directory: "+
			"no event is sent until this user can write to such a directory", checks.Setting(f, d), dir)
	}
	return ""
}

// makesFile reports whether a destination is a file that opening it would make. doctor changes nothing, and the file
// would belong to the wrong user.
func makesFile(to *url.URL, err error) bool {
	if err != nil || to.Scheme != "file" || !filepath.IsAbs(to.Path) {
		return false
	}
	_, err = os.Stat(to.Path)
	return err != nil
}

// lookupTime bounds the time for the address of a name.
const lookupTime = 2 * time.Second

// forbidden returns an error text if events.allowed_networks forbids the address of a URL, or if its
// name cannot be looked up. Empty: neither.
func forbidden(ctx context.Context, f *factory.Factory, what string, to *url.URL) string {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addresses, err := egress.Forbidden(ctx, to, f.Config().Events.AllowedNetworks)
	if err != nil {
		return fmt.Sprintf("%s: the address of its host was not found from here, nothing is sent there: %s", what, err)
	}
	if len(addresses) == 0 {
		return ""
	}
	host := to.Hostname()
	if _, err := netip.ParseAddr(host); err != nil {
		host += fmt.Sprintf(" (%s)", strings.Join(seq.Map(addresses, netip.Addr.String), ", "))
	}
	return fmt.Sprintf("%s is at %s, a private or special address that events.allowed_networks does not have: "+
		"nothing is sent there. To allow it, add %s to events.allowed_networks", what, host, egress.Networks(addresses...))
}

// forbiddenServices returns a text for each URL of http_jobs that forbidden has one for.
func forbiddenServices(ctx context.Context, f *factory.Factory) []string {
	list := []string{}
	for _, job := range f.Config().HTTPJobs {
		to, err := url.Parse(job.URL.Reveal())
		if err != nil {
			continue // loading the settings reports this
		}
		if text := forbidden(ctx, f, "the service of job "+job.Name, to); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// examineEvents finds a missing directory of a destination, and addresses that events.allowed_networks forbids.
func examineEvents(ctx context.Context, f *factory.Factory) (list []doctor.Finding) {
	for _, d := range f.Config().AllDestinations() {
		if problem := eventsProblem(ctx, f, d); problem != "" {
			list = append(list, doctor.ToDo("events", problem,
				"create the directory, allow the address, or correct the destination"))
		}
	}
	for _, problem := range checks.ReceiverProblems(f) {
		list = append(list, doctor.ToDo("receivers", "no run begins with such settings: "+problem,
			"correct the setting, and try it with: "+f.Self()+" receivers test NAME"))
	}
	for _, problem := range forbiddenServices(ctx, f) {
		list = append(list, doctor.ToDo("http_jobs", problem, "allow the address, or correct the url of the job"))
	}
	return list
}

// examineStores returns a finding for each other store that has the id of this one.
func examineStores(f *factory.Factory, ids map[string]string) (list []doctor.Finding) {
	own := f.Store().Name
	for _, other := range slices.Sorted(maps.Keys(ids)) {
		if other == own || ids[other] != ids[own] {
			continue
		}
		list = append(list, doctor.ToDo("stores",
			fmt.Sprintf("stores %s and %s are the same schema, or one is a copy of the other", own, other),
			fmt.Sprintf("list the schema once in stores. If this store is a copy for tests, take it out of stores, and give it "+
				"a settings file of its own, as docs/restore.md says, because a run sends its events and calls services. "+
				"Give each copy a new id: update %s.setting set store = gen_random_uuid()", f.Schema())))
	}
	return list
}

// examineQueries returns a finding for each query that cannot run.
func examineQueries(f *factory.Factory, tried []checks.Tried) (list []doctor.Finding) {
	for _, q := range tried {
		if q.Problem != "" {
			list = append(list, doctor.ToDo("sql_jobs", q.String(), "correct the entry or grant what is missing, "+
				"and try it with: "+f.Self()+" doctor. Until then its checks fail"))
		}
	}
	return list
}
