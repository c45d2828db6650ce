//go:build race

package schedule_test

const raceDetector = true
