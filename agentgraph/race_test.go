//go:build race

package agentgraph_test

// stride is the distance between the events at which a test disturbs a run. It is more than 1 because the race detector
// makes each run several times as slow, and odd so that tests which alternate still do.
const stride = 3
