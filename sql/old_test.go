package sql

import (
	"errors"
	"strings"
	"testing"
)

func TestAServerThatIsTooOldIsRefusedByItsVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]string{140023: "version 14.23: upgrade it", 149999: "14.9999"} {
		if err := refuseOld(version); !errors.Is(err, ErrOldServer) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %q", version, err, want)
		}
	}
	for _, version := range []int{150000, 150018, 180004, 190000} {
		if err := refuseOld(version); err != nil {
			t.Errorf("%d: %v", version, err)
		}
	}
}
