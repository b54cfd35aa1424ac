// Package cassette records the HTTP requests of a program and the responses of an endpoint in a readable file, and
// plays them back without the endpoint. It is a transport for [openai.WithHTTPClient] and does not interpret the
// content.
//
//	recorder, err := cassette.Record("testdata/refund.json", nil)
//	model, err := openai.New("gpt-5-mini", openai.WithHTTPClient(&http.Client{Transport: recorder}))
//	…
//	err = recorder.Close()
//
//	player, err := cassette.Replay("testdata/refund.json")
//
// Tests use [Test]: it plays a file, or records it again if ARBOR_RECORD=1 is set.
//
// # The file
//
// The file contains one JSON object per request, in the order in which the responses ended. Of the headers it has only
// the Content-Type of the response and those that say when to retry. It has no hosts. The values of headers that may be
// secret, and those of the query and the user of a URL, are replaced by "[redacted]" wherever they occur, so that an
// endpoint that repeats a key does not write it into the file. The texts of people and models are not changed.
//
// # Playing
//
// A request gets the first unused response that was recorded for the same method, path, query and body. JSON bodies are
// the same if their values are. A request that was not recorded gets a response with the status 400, which no client
// retries. It shows the nearest recording and the differences; [Player.Err] returns the same error.
//
// [openai.WithHTTPClient]: https://pkg.go.dev/github.com/agentarbor/arbor/llm/openai#WithHTTPClient
package cassette
