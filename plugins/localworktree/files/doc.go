// Package files carries bytes over the border of a workspace: seeds in, artifacts out.
//
// A workspace belongs to a hostile command: every name in it may be a link, a pipe or a second name of a foreign file,
// and may change while it is looked at. Everything goes through an os.Root, and every directory on the way is opened
// one component at a time and compared with what was seen before, so that neither a link nor a race leads anywhere
// else, not even within the workspace.
//
// Only the local adapter enters. The caller owns the root, and sees to it that nothing runs in the workspace while
// artifacts are read: a race costs an artifact here, never a foreign byte.
package files
