package jspeers_test

import (
	"encoding/json"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// answer is a response to a request that was written by hand.
type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// fetch sends a request as a script does that uses no library but fetch. A body that
// is not nil is sent as JSON.
func (c *caller) fetch(method, url string, headers map[string]string, body any) *answer {
	c.t.Helper()
	params := map[string]any{"method": method, "url": url}
	if headers != nil {
		params["headers"] = headers
	}
	if body != nil {
		data := must.Get(json.Marshal(body))
		params["body"] = string(data)
	}
	var a answer
	require.NoError(c.t, c.call(target{}, "fetch", params, &a))
	return &a
}
