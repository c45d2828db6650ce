package installcmd

import (
	"testing"

	"github.com/prescient-go/prescient/jobs/event"
	_ "github.com/prescient-go/prescient/jobs/event/file"
	_ "github.com/prescient-go/prescient/jobs/event/kafka"
	_ "github.com/prescient-go/prescient/jobs/event/nats"
	_ "github.com/prescient-go/prescient/jobs/event/webhook"
)

func TestEachSchemeOfADestinationHasAUsualPort(t *testing.T) {
	t.Parallel()
	for _, scheme := range event.Schemes() {
		if scheme == "file" || scheme == "stdout" {
			continue
		}
		if ports := portsOf(scheme + "://example.com/orders"); len(ports) != 1 {
			t.Errorf("%s: the ports are %d, want one", scheme, ports)
		}
	}
}
