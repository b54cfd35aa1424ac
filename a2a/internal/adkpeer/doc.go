// Package adkpeer holds the A2A server against RemoteA2aAgent of google-adk, the agent by which trees of Google's Agent
// Development Kit call others. It has no code besides its test, and nothing imports it.
//
// The test starts Python with the script of this folder, which needs what pip installs here (105 MB):
//
//	python3 -m venv a2a/internal/adkpeer/venv
//	a2a/internal/adkpeer/venv/bin/pip install -r a2a/internal/adkpeer/requirements.txt
//
// Without that it is skipped, except where the environment has CI=true.
package adkpeer
