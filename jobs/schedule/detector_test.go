//go:build !race

package schedule_test

// raceDetector tells whether this binary has it.
const raceDetector = false
