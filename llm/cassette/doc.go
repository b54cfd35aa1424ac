// Package cassette records what a program and an endpoint say to each other over HTTP, in a file
// that people can read, and plays it back without the endpoint. It is a transport for
// [openai.WithHTTPClient] and knows nothing of what is said. It imports internal/linediff alone.
//
//	tape, err := cassette.Record("testdata/refund.json", nil)
//	model, err := openai.New("gpt-5-mini", openai.WithHTTPClient(&http.Client{Transport: tape}))
//	…
//	err = tape.Close()
//
//	played, err := cassette.Replay("testdata/refund.json")
//
// In tests [Test] does either: it plays a file, and records it anew where ARBOR_RECORD=1 is set.
//
// # What is in the file
//
// One JSON object for each request, in the order in which the answers ended. Of headers it has the
// type of the answer and what says when to try again, and no others. Hosts are left out. The values of headers that
// carry secrets, and those of the query and the user of an address, are replaced by "[redacted]"
// wherever they occur, so that an endpoint which repeats a key does not put it into the file.
// What people and models said is in it as it was said.
//
// # How it is played
//
// A request gets the first answer that was recorded for the same method, path, query and body and was
// not given yet. Bodies of JSON are the same if they have the same values. A request that was not
// recorded gets an answer with the status 400, which no client tries again, that shows the nearest
// recording and how it differs; [Player.Err] has it too.
//
// [openai.WithHTTPClient]: https://pkg.go.dev/github.com/agentarbor/arbor/llm/openai#WithHTTPClient
package cassette
