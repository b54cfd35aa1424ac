// Package jspeers tests remote agents and the A2A server with third-party agents and clients: those of the JavaScript
// SDK of A2A, release 1.3.0 for protocol version 1.0, and its last release for version 0.3. The same npm packages
// include a mock of OpenAI's Responses API, which the tests of llm/openai in this folder call. The package contains
// only tests.
//
// The tests start Node.js with the scripts of this folder, which need packages from npm:
//
//	npm --prefix a2a/internal/jspeers ci --ignore-scripts
//
// Without them the tests are skipped, unless the environment contains CI=true.
package jspeers
