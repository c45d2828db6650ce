package slots

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// maxDelay bounds the delay of Config.ClaimDelay.
const maxDelay = time.Second

// hostLoad returns the load average of the last minute for each core, on Linux; 0 on other systems.
func hostLoad() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load / float64(runtime.NumCPU())
}
