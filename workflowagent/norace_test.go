//go:build !race

package workflowagent_test

const raceEnabled = false
