package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/exampletest"
	"github.com/agentarbor/arbor/internal/testing/servers"
)

// TestMain makes a process of the test a replica where the environment says so.
func TestMain(m *testing.M) {
	if isReplica() {
		replica()
	}
	os.Exit(m.Run())
}

// Replicas are killed while clients talk, and no conversation has a hole.
func TestCluster(t *testing.T) {
	c := config{lasts: 5 * time.Second, kills: 1200 * time.Millisecond, replicas: 3, clients: 8, postgres: servers.Database(t), redis: servers.SharedRedis(t)}
	exampletest.Setenv(t)
	var out strings.Builder
	sum, err := run(t.Context(), &out, c)
	require.NoError(t, err, out.String())
	require.Contains(t, out.String(), "every conversation is whole\n")
	require.GreaterOrEqual(t, sum.kills, 2)
	require.GreaterOrEqual(t, sum.turns, c.clients)
	require.Positive(t, sum.adoptions, "nothing was under way on a replica when it was killed")
}

// The replicas ask the endpoint that the environment names.
func TestEndpoint(t *testing.T) {
	c := config{lasts: time.Second, kills: time.Minute, replicas: 2, clients: 2, postgres: servers.Database(t), redis: servers.SharedRedis(t)}
	env, requests := exampletest.Endpoint(t)
	exampletest.Setenv(t, env...)
	var out strings.Builder
	sum, err := run(t.Context(), &out, c)
	require.NoError(t, err, out.String())
	require.GreaterOrEqual(t, requests(), sum.turns)
	require.GreaterOrEqual(t, sum.turns, c.clients)
}

func TestClusterRefuses(t *testing.T) {
	_, err := run(t.Context(), new(strings.Builder), config{})
	require.ErrorContains(t, err, "there must be a replica")
}
