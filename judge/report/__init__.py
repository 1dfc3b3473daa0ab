"""Results for people and for programs: tables, and the run's folder."""
