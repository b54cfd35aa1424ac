// Package adkpeer tests the A2A server with RemoteA2aAgent of google-adk, the agent with which trees of Google's Agent
// Development Kit call others. It contains only its test.
//
// The test starts Python with the script of this folder, which needs packages from pip (105 MB):
//
//	python3 -m venv a2a/internal/adkpeer/venv
//	a2a/internal/adkpeer/venv/bin/pip install -r a2a/internal/adkpeer/requirements.txt
//
// Without them the test is skipped, unless the environment contains CI=true.
package adkpeer
