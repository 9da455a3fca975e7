// Package adapter is the shared.Adapter of Daytona sandboxes.
//
// This build negotiates and checks its configuration: a definition that names Daytona is checked down to each argument,
// and its plan says for each cell why it cannot be taken. It makes no sandbox, asks no server, keeps no key, and says
// so in its capabilities. It reads no variable of the environment: what the account is, and where, comes through
// Configure alone, so that a .env file of a measured repository cannot send a key elsewhere.
//
// Only the main package of the plugin enters, and tests that need the process.
package adapter
