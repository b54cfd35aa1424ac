// Package jspeers holds remote nodes and the A2A server against agents and clients
// that nobody here wrote: those of the JavaScript SDK of A2A, release 1.3.0 for the
// protocol's version 1.0, and its last release for version 0.3. The same packages hold
// a stand-in for OpenAI's Responses API, with which llm/openai speaks here. It has no
// code besides its tests, and nothing imports it.
//
// The tests start Node.js with the scripts of this folder, which need what npm
// installs here:
//
//	npm --prefix a2a/internal/jspeers ci --ignore-scripts
//
// Without that they are skipped, except where the environment has CI=true.
package jspeers
