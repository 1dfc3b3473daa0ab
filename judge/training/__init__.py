"""The one trainer: any network becomes a judge here, alone or among many."""
