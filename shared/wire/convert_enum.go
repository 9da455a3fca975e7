package wire

import (
	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

func codeTable() enum[shared.Code, pb.Code] {
	return enum[shared.Code, pb.Code]{
		{shared.CodeInvalid, pb.Code_CODE_INVALID},
		{shared.CodeUnsupported, pb.Code_CODE_UNSUPPORTED},
		{shared.CodeNotFound, pb.Code_CODE_NOT_FOUND},
		{shared.CodeExists, pb.Code_CODE_EXISTS},
		{shared.CodeUnauthenticated, pb.Code_CODE_UNAUTHENTICATED},
		{shared.CodeExhausted, pb.Code_CODE_EXHAUSTED},
		{shared.CodeUnavailable, pb.Code_CODE_UNAVAILABLE},
		{shared.CodeTimeout, pb.Code_CODE_TIMEOUT},
		{shared.CodeCancelled, pb.Code_CODE_CANCELLED},
		{shared.CodePrecondition, pb.Code_CODE_PRECONDITION},
		{shared.CodeNotImplemented, pb.Code_CODE_NOT_IMPLEMENTED},
		{shared.CodeInternal, pb.Code_CODE_INTERNAL},
	}
}

func causeTable() enum[shared.Cause, pb.Cause] {
	return enum[shared.Cause, pb.Cause]{
		{shared.CauseProvision, pb.Cause_CAUSE_PROVISION},
		{shared.CauseSetup, pb.Cause_CAUSE_SETUP},
		{shared.CauseSeed, pb.Cause_CAUSE_SEED},
		{shared.CauseAdapterCrashed, pb.Cause_CAUSE_ADAPTER_CRASHED},
		{shared.CauseAdapterHung, pb.Cause_CAUSE_ADAPTER_HUNG},
		{shared.CauseAmbiguous, pb.Cause_CAUSE_AMBIGUOUS},
		{shared.CauseProtocol, pb.Cause_CAUSE_PROTOCOL},
		{shared.CauseCollect, pb.Cause_CAUSE_COLLECT},
		{shared.CauseVerify, pb.Cause_CAUSE_VERIFY},
		{shared.CauseQuota, pb.Cause_CAUSE_QUOTA},
		{shared.CauseAuth, pb.Cause_CAUSE_AUTH},
		{shared.CauseRemote, pb.Cause_CAUSE_REMOTE},
		{shared.CauseStorage, pb.Cause_CAUSE_STORAGE},
		{shared.CauseRepo, pb.Cause_CAUSE_REPO},
	}
}

// optionalCauseTable has a value for what the phase decides.
func optionalCauseTable() enum[shared.Cause, pb.Cause] {
	return append(causeTable(), enum[shared.Cause, pb.Cause]{{"", pb.Cause_CAUSE_UNSPECIFIED}}...)
}

func noticeKindTable() enum[shared.NoticeKind, pb.NoticeKind] {
	return enum[shared.NoticeKind, pb.NoticeKind]{
		{shared.NoticeSurvivorsKilled, pb.NoticeKind_NOTICE_KIND_SURVIVORS_KILLED},
		{shared.NoticeOutputHeld, pb.NoticeKind_NOTICE_KIND_OUTPUT_HELD},
		{shared.NoticeOutputTruncated, pb.NoticeKind_NOTICE_KIND_OUTPUT_TRUNCATED},
		{shared.NoticeNestedRepository, pb.NoticeKind_NOTICE_KIND_NESTED_REPOSITORY},
		{shared.NoticeUnreadable, pb.NoticeKind_NOTICE_KIND_UNREADABLE},
		{shared.NoticeArtifactRefused, pb.NoticeKind_NOTICE_KIND_ARTIFACT_REFUSED},
		{shared.NoticeDirtySource, pb.NoticeKind_NOTICE_KIND_DIRTY_SOURCE},
		{shared.NoticeBaseDrift, pb.NoticeKind_NOTICE_KIND_BASE_DRIFT},
		{shared.NoticeFilterNotApplied, pb.NoticeKind_NOTICE_KIND_FILTER_NOT_APPLIED},
		{shared.NoticeSubmodule, pb.NoticeKind_NOTICE_KIND_SUBMODULE},
		{shared.NoticeHistory, pb.NoticeKind_NOTICE_KIND_HISTORY},
		{shared.NoticeSecretMasked, pb.NoticeKind_NOTICE_KIND_SECRET_MASKED},
		{shared.NoticeLimitNotSupported, pb.NoticeKind_NOTICE_KIND_LIMIT_NOT_ENFORCED},
		{shared.NoticeStdinUnread, pb.NoticeKind_NOTICE_KIND_STDIN_UNREAD},
	}
}

func dimensionTable() enum[shared.Dimension, pb.Dimension] {
	return enum[shared.Dimension, pb.Dimension]{
		{shared.DimensionWallTime, pb.Dimension_DIMENSION_WALL_TIME},
		{shared.DimensionOutput, pb.Dimension_DIMENSION_OUTPUT},
		{shared.DimensionMemory, pb.Dimension_DIMENSION_MEMORY},
		{shared.DimensionCPU, pb.Dimension_DIMENSION_CPU},
		{shared.DimensionProcesses, pb.Dimension_DIMENSION_PROCESSES},
		{shared.DimensionDisk, pb.Dimension_DIMENSION_DISK},
		{shared.DimensionNetwork, pb.Dimension_DIMENSION_NETWORK},
		{shared.DimensionFilesystem, pb.Dimension_DIMENSION_FILESYSTEM},
		{shared.DimensionFileSize, pb.Dimension_DIMENSION_FILE_SIZE},
		{shared.DimensionProcessCleanup, pb.Dimension_DIMENSION_PROCESS_CLEANUP},
	}
}

// optionalDimensionTable has a value for no limit.
func optionalDimensionTable() enum[shared.Dimension, pb.Dimension] {
	return append(dimensionTable(), enum[shared.Dimension, pb.Dimension]{{"", pb.Dimension_DIMENSION_UNSPECIFIED}}...)
}

func levelTable() enum[shared.Level, pb.Level] {
	return enum[shared.Level, pb.Level]{
		{shared.LevelNone, pb.Level_LEVEL_NONE},
		{shared.LevelObserved, pb.Level_LEVEL_OBSERVED},
		{shared.LevelBestEffort, pb.Level_LEVEL_BEST_EFFORT},
		{shared.LevelEnforced, pb.Level_LEVEL_ENFORCED},
	}
}

// optionalLevelTable has a value for limits that were not asked for.
func optionalLevelTable() enum[shared.Level, pb.Level] {
	return append(levelTable(), enum[shared.Level, pb.Level]{{shared.LevelUnspecified, pb.Level_LEVEL_UNSPECIFIED}}...)
}

// coldStartTable has a value for what is not declared: the zero value of Capabilities can nothing.
func coldStartTable() enum[shared.ColdStart, pb.ColdStart] {
	return enum[shared.ColdStart, pb.ColdStart]{
		{"", pb.ColdStart_COLD_START_UNSPECIFIED},
		{shared.ColdStartSub100ms, pb.ColdStart_COLD_START_SUB_100MS},
		{shared.ColdStartSeconds, pb.ColdStart_COLD_START_SECONDS},
		{shared.ColdStartMinutes, pb.ColdStart_COLD_START_MINUTES},
	}
}

// transferTable has a value for what is not declared: the zero value of Capabilities can nothing.
func transferTable() enum[shared.Transfer, pb.Transfer] {
	return enum[shared.Transfer, pb.Transfer]{
		{"", pb.Transfer_TRANSFER_UNSPECIFIED},
		{shared.TransferMount, pb.Transfer_TRANSFER_MOUNT},
		{shared.TransferUpload, pb.Transfer_TRANSFER_UPLOAD},
	}
}

func phaseTable() enum[shared.Phase, pb.Phase] {
	return enum[shared.Phase, pb.Phase]{
		{shared.PhaseSetup, pb.Phase_PHASE_SETUP},
		{shared.PhaseCell, pb.Phase_PHASE_CELL},
		{shared.PhaseVerify, pb.Phase_PHASE_VERIFY},
	}
}

func cellKindTable() enum[shared.CellKind, pb.CellKind] {
	return enum[shared.CellKind, pb.CellKind]{
		{shared.PromptCell, pb.CellKind_CELL_KIND_PROMPT},
		{shared.ExecCell, pb.CellKind_CELL_KIND_EXEC},
	}
}

// seedAsTable has a value for a cell without seeds.
func seedAsTable() enum[shared.SeedAs, pb.SeedAs] {
	return enum[shared.SeedAs, pb.SeedAs]{
		{shared.SeedAsUnspecified, pb.SeedAs_SEED_AS_UNSPECIFIED},
		{shared.SeedUncommitted, pb.SeedAs_SEED_AS_UNCOMMITTED},
		{shared.SeedCommit, pb.SeedAs_SEED_AS_COMMIT},
	}
}

// statusTable holds the statuses that an adapter answers; the others are the host's.
func statusTable() enum[shared.Status, pb.Status] {
	return enum[shared.Status, pb.Status]{
		{shared.StatusCompleted, pb.Status_STATUS_COMPLETED},
		{shared.StatusTimedOut, pb.Status_STATUS_TIMED_OUT},
		{shared.StatusLimitExceeded, pb.Status_STATUS_LIMIT_EXCEEDED},
	}
}

func artifactKindTable() enum[shared.ArtifactKind, pb.ArtifactKind] {
	return enum[shared.ArtifactKind, pb.ArtifactKind]{
		{shared.ArtifactFile, pb.ArtifactKind_ARTIFACT_KIND_FILE},
		{shared.ArtifactDiff, pb.ArtifactKind_ARTIFACT_KIND_DIFF},
		{shared.ArtifactDiffFromBase, pb.ArtifactKind_ARTIFACT_KIND_DIFF_FROM_BASE},
	}
}

func artifactStateTable() enum[shared.ArtifactState, pb.ArtifactState] {
	return enum[shared.ArtifactState, pb.ArtifactState]{
		{shared.ArtifactPresent, pb.ArtifactState_ARTIFACT_STATE_PRESENT},
		{shared.ArtifactMissing, pb.ArtifactState_ARTIFACT_STATE_MISSING},
		{shared.ArtifactDirectory, pb.ArtifactState_ARTIFACT_STATE_DIRECTORY},
		{shared.ArtifactRefused, pb.ArtifactState_ARTIFACT_STATE_REFUSED},
		{shared.ArtifactTooLarge, pb.ArtifactState_ARTIFACT_STATE_TOO_LARGE},
	}
}

func resourceStateTable() enum[shared.ResourceState, pb.ResourceState] {
	return enum[shared.ResourceState, pb.ResourceState]{
		{shared.ResourceRemoved, pb.ResourceState_RESOURCE_STATE_REMOVED},
		{shared.ResourceAbsent, pb.ResourceState_RESOURCE_STATE_ABSENT},
		{shared.ResourceLeaked, pb.ResourceState_RESOURCE_STATE_LEAKED},
	}
}
